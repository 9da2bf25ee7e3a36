"""The end-to-end checks with real agent hosts: `scripts/hosts`."""
