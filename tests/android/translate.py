"""Makes a jar of an APK's dex: Debian's enjarify, with its tables of constants put right.

    /usr/bin/python3 translate.py -f -o APP.jar APP.apk

The tables of Debian's enjarify 1.0.3 say which short instructions make a float or a double, and say it wrongly: 2^24
becomes 1. This runs under Debian's own Python, where enjarify is, and needs nothing else.
"""

import struct

from enjarify.jvm.constants import lookup
from enjarify.main import main

_FCONST_0, _DCONST_0 = 0x0B, 0x0E

lookup.FLOATS = {struct.unpack(">I", struct.pack(">f", value))[0]: bytes([_FCONST_0 + value]) for value in (0, 1, 2)}
lookup.DOUBLES = {struct.unpack(">Q", struct.pack(">d", value))[0]: bytes([_DCONST_0 + value]) for value in (0, 1)}

if __name__ == "__main__":
    main()
