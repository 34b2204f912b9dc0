"""`kontobahn` and `python -m kontobahn`."""

from kontobahn.cli import main

if __name__ == "__main__":
    main()
