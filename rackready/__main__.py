from rackready.cli import main

main()
