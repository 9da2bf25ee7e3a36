"""The outputs that questions are about: real ones of the repository, and two that are too long for it."""

import functools
import json
import pathlib
import random

TESTS = pathlib.Path(__file__).resolve().parent.parent
SEED = 7
ORDERS, ITEMS = 32_000, 10_400
PLACES = ["Turku", "Lyon", "Graz", "Porto", "Gdansk", "Leeds"]
WORDS = "blue steel soft large small oak linen glass round folding garden kitchen travel winter".split()
THINGS = "lamp chair kettle rug shelf mug towel clock bench tray mirror basket".split()


@functools.cache
def output(name):
    """Returns the bytes of an output."""
    made = {"orders-log": orders_log, "items-json": items_json}.get(name)
    if made:
        return made().encode()
    for kind in ("questions", "outputs"):
        file = TESTS / kind / name / "output"
        if file.exists():
            return file.read_bytes()
    raise KeyError(name)


def orders_log():
    """JSON Lines of 5 MB, with two lines that tell what went wrong."""
    dice = random.Random(SEED)
    lines = [order(dice, number) for number in range(ORDERS)]
    lines[17_204] = {"ts": stamp(17_204), "level": "error", "service": "refunds", "msg": "refund rejected",
                     "order": "ORD-417204", "why": "the card was closed by its bank on 2026-03-02"}
    lines[26_911] = {"ts": stamp(26_911), "level": "error", "service": "exporter", "worker": "exporter-5",
                     "msg": "cannot open the spool", "err": "EMFILE: too many open files", "limit": 1024}
    return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)


def order(dice, number):
    service = dice.choice(["checkout", "stock", "mail", "refunds", "exporter"])
    return {"ts": stamp(number), "level": "info", "service": service, "msg": "order " + dice.choice(
        ["placed", "paid", "packed", "sent", "refund paid"]), "order": f"ORD-{400_000 + number}",
        "place": dice.choice(PLACES), "ms": dice.randrange(3, 900), "trace": f"{dice.getrandbits(64):016x}"}


def stamp(number):
    return f"2026-03-{4 + number // 12_000:02}T{number // 500 % 24:02}:{number // 9 % 60:02}:{number % 60:02}Z"


def items_json():
    """JSON of 2 MB on one line, with two items that are unlike the others."""
    dice = random.Random(SEED)
    items = [item(dice, number) for number in range(ITEMS)]
    items[4_021] |= {"name": "folding canoe", "stock": 0, "note": "sold out in Turku since the flood of 12 May"}
    items[7_655] |= {"name": "tin whistle", "review": "the third hole is drilled twice, so it plays flat"}
    return json.dumps({"total": ITEMS, "items": items, "next": None})


def item(dice, number):
    name = f"{dice.choice(WORDS)} {dice.choice(WORDS)} {dice.choice(THINGS)}"
    return {"id": f"it-{number:05}", "name": name, "place": dice.choice(PLACES), "stock": dice.randrange(1, 400),
            "price": dice.randrange(300, 90_000) / 100, "tags": dice.sample(WORDS, 3),
            "sku": f"{dice.getrandbits(48):012x}", "updated": stamp(number)}
