"""`python -m service` is `reconciler`."""

from service.cli import main

main()
