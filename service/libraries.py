"""Compiles the project's C libraries beside their sources: `python -m wavetrim.service.libraries`.

For machines that have no C compiler when the service runs, such as the container image.
"""

import sys
from typing import Final

from wavetrim.cpu.library import CPU_LIBRARY
from wavetrim.kernels.transfer.host_library import HOST_LIBRARY
from wavetrim.native.errors import CompilationFailed
from wavetrim.native.library import Library, compile_library

LIBRARIES: Final[tuple[Library, ...]] = (HOST_LIBRARY, CPU_LIBRARY)


def main() -> None:
    """Compile them, and print their files.

    Raises:
        SystemExit: There is no C compiler, it refuses a source, or the folder cannot be written.
    """
    try:
        for library in LIBRARIES:
            print(compile_library(library, library.folder))
    except (CompilationFailed, OSError) as failure:
        sys.exit(str(failure))


if __name__ == "__main__":
    main()
