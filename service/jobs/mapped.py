"""Operands that the engine reads from their files, which may be changed under it.

What lies in the arena was checked on its way there, and nobody else can write to it. A file can be
changed between its check and the last row of the product. So it is looked at again behind the
product: every change leaves its time, so a file that looks as it did was the same all the while.
"""

from wavetrim.service.storage.matrices.file_checks import FileChecks, Signature
from wavetrim.service.storage.matrices.matrix import Matrix


class MappedOperands:
    """The files that one job's product is computed from.

    Args:
        checks: Reads and compares them.
    """

    def __init__(self, checks: FileChecks) -> None:
        self._checks = checks
        self._found: dict[Matrix, Signature] = {}

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._found)

    def add(self, matrix: Matrix) -> None:
        """Check a file, from which the engine will read.

        Raises:
            MatrixDamaged: It is not the one that was stored.
            MatrixNotFound: The matrix was deleted meanwhile.
        """
        self._found[matrix] = self._checks.verify(matrix)

    def find_changed(self) -> Matrix | None:
        """One whose file was changed since it was checked; None if there is none."""
        for matrix, found in self._found.items():
            if self._checks.sign(matrix) != found:
                return matrix
        return None

    def check_again(self) -> None:
        """Check all of them, before another try.

        Raises:
            MatrixDamaged: One is not the one that was stored.
            MatrixNotFound: It was deleted meanwhile.
        """
        for matrix in self._found:
            self.add(matrix)
