"""Emulated nodes: a tree of plain files that the real scripts and the real pciutils work on."""
