"""What the checks are, for people: on the terminal, and as docs/checks.md.

``python -m rackready.explain`` prints the page.
"""

from __future__ import annotations

from textwrap import fill

from rackready.check import Check
from rackready.checks import all_checks
from rackready.document import hint

_ABOUT = """# Checks

Made from the checks themselves by `python -m rackready.explain`; do not edit.

Each check looks at one thing and gives a verdict for each subject: **fail** wrong, **error** could
not be determined or a change was refused, **warn** suspicious, **ok** checked and right, **skip**
does not apply. Words in braces stand for what was found on the node."""


def explain(identity: str) -> str:
    """One check for the terminal. LookupError names the nearest id."""
    known = all_checks()
    if identity not in known:
        alike = [name for name in known if identity in name.split(".")] if identity else []
        near = f", did you mean {' or '.join(alike)}?" if alike else hint(identity, known)
        raise LookupError(f"no check {identity!r}{near}")
    check = known[identity]
    lines = [f"{identity}: {check.text['title']}", "", fill(str(check.text["why"]), 88), ""]
    for name, words in check.text["cases"].items():
        lines.append(f"{check.cases[name].value}  {name}: {words['message']}")
        for part, label in _PARTS:
            if words.get(part):
                lines.append(
                    fill(
                        f"{label}: {words[part]}",
                        88,
                        initial_indent=" " * 6,
                        subsequent_indent=" " * 8,
                    )
                )
    lines += ["", "Sources", *(f"  {source}" for source in check.text.get("sources", ()))]
    return "\n".join(lines)


_PARTS = (("cause", "why"), ("fix", "fix"), ("persistent_fix", "for good"))


def index() -> str:
    """All ids with their titles."""
    checks = all_checks()
    width = max(map(len, checks))
    return "\n".join(f"{name:<{width}}  {item.text['title']}" for name, item in checks.items())


def page() -> str:
    """docs/checks.md."""
    return "\n\n".join([_ABOUT, *(_section(check) for check in all_checks().values())]) + "\n"


def _section(check: Check) -> str:
    rows = ["| verdict | case | what it says | fix | for good |", "|---|---|---|---|---|"]
    for name, words in check.text["cases"].items():
        cells = (
            check.cases[name].value,
            name,
            words["message"],
            words.get("fix", ""),
            words.get("persistent_fix", ""),
        )
        rows.append("| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |")
    sources = "; ".join(check.text.get("sources", ()))
    parts = [f"## {check.id}", f"{check.text['title']}. {check.text['why']}", "\n".join(rows)]
    return "\n\n".join([*parts, f"Sources: {sources}"])


if __name__ == "__main__":
    print(page(), end="")
