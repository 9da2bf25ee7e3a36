# A script that tests orders.

import sys

# The number of orders.
ORDERS = 17

# === settings ===

# Prints them all.
def main():
    for order in range(ORDERS):
        # each one
        print("commit", order)
        print("==> order <==")


# The end.
if __name__ == "__main__":
    sys.exit(main())
