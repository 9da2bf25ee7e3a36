"""Times and sizes as they are printed, and what processes take."""

import pathlib
import statistics


class Times:
    """The seconds of a repeated thing."""

    def __init__(self):
        self.all = []

    def add(self, seconds):
        self.all.append(seconds)

    def cell(self):
        """Returns the median, and the worst but one in a hundred."""
        ordered = sorted(self.all)
        worst = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
        return f"{ms(statistics.median(ordered))} | {ms(worst)}"

    def median(self):
        return ms(statistics.median(self.all))


def ms(seconds):
    return f"{1000 * seconds:,.1f} ms" if seconds < 1 else f"{seconds:,.2f} s"


def mib(size):
    return f"{size / (1 << 20):,.1f} MiB"


def first_byte(server, path):
    """Returns the seconds until the head of an answer is there, and the bytes of its body."""
    answer = server.get_in(path)
    return answer.seconds, len(answer.body)


def private(pid):
    """Returns the bytes of a process that no other has."""
    rollup = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    return sum(
        int(line.split()[1]) * 1024
        for line in rollup.splitlines()
        if line.startswith(("Private_Clean:", "Private_Dirty:"))
    )


def peak(pid):
    """Returns the most memory that a process had for itself and from files."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:"))


def cpu(pid):
    """Returns the seconds of processors that a process has used."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


async def renderers(browser):
    """Returns the processes of tabs."""
    session = await browser.new_browser_cdp_session()
    try:
        found = await session.send("SystemInfo.getProcessInfo")
    finally:
        await session.detach()
    return [one["id"] for one in found["processInfo"] if one["type"] == "renderer"]
