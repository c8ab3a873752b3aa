#!/usr/bin/env python3
"""Replaces the text between `<!-- NAME: begin -->` and `<!-- NAME: end -->` of a file by standard input.

between_markers.py FILE NAME
"""

import sys


def main() -> None:
    path, name = sys.argv[1:3]
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        sys.exit(f"{path} must contain {begin} and {end} once each, in this order")
    before, after = text[: text.index(begin)], text[text.index(end) :]
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{before}{begin}\n\n{sys.stdin.read().strip()}\n\n{after}")


if __name__ == "__main__":
    main()
