"""SHA256SUMS in a folder: the file that `sha256sum -c` reads, so that a changed byte is noticed before it is used."""

from pathlib import Path

from isotune.files import CHECKSUMS, checksums, write_text

NOTES = "README.md"  # people may write into it


def write_checksums(folder: Path) -> None:
    """Writes the checksums of all files in a folder but README.md."""
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    (folder / CHECKSUMS).write_text(checksums(folder, (n for n in names if n not in (CHECKSUMS, NOTES))), "utf-8")


def write_checked(folder: Path, name: str, text: str) -> None:
    """Writes a small file into a folder, and its checksum into SHA256SUMS, if the folder has that.

    The old checksum goes first, so a killed process leaves none that the file does not have.
    """
    sums = folder / CHECKSUMS
    if not sums.exists():
        write_text(folder / name, text)
        return
    others = "".join(line for line in sums.read_text("utf-8").splitlines(True) if not line.endswith(f"  {name}\n"))
    write_text(sums, others)
    write_text(folder / name, text)
    write_text(sums, others + checksums(folder, [name]))
