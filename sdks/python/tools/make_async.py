"""Makes src/duly/async_client.py from src/duly/client.py. `--check` only says whether it is up to date."""

from __future__ import annotations

import re
import sys
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "duly"

INTRO = '''"""The client for async code. Made from client.py by tools/make_async.py: change that one."""'''

CALL = """        call = partial(
            self._transport.call, method, path, query=query, body=body, headers=headers, timeout=timeout
        )
        # A thread per request: what is awaited is a socket either way, and one transport serves both clients.
        return await anyio.to_thread.run_sync(call, abandon_on_cancel=True, limiter=self._limiter)
"""


def make(text: str) -> str:
    text = re.sub(r'^""".*?"""', INTRO, text, count=1, flags=re.S)
    start, rest = text.split("class Client:", 1)
    body, _ = rest.split("\n\ndef _given(", 1)
    start = re.sub(r"import os\nimport ssl\n", "import ssl\n", start)
    start = re.sub(r"BATCH_MAX = .*", "", start, flags=re.S)
    start = start.replace("Iterator, Mapping", "AsyncIterator, Mapping")
    start = start.replace(
        "from datetime import datetime\n", "from datetime import datetime\nfrom functools import partial\n"
    )
    start = start.replace(
        "from . import types as t\n", "import anyio\nimport anyio.to_thread\n\nfrom . import types as t\n"
    )
    start = start.replace(
        "from ._transport import Backoff, Transport, part\n", "from ._transport import Backoff, part\n"
    )
    start = start.replace("import uuid\n", "import uuid\n").rstrip()
    start += "\nfrom .client import BATCH_MAX, WAIT_MARGIN, _given, _key, transport_of\n\n"
    start += 'THREADS_MAX = 64\n"""Requests of one client that are under way at once; more wait."""\n\n\n'
    start = start.replace("import uuid\n", "import uuid\n", 1)
    body = body.replace("def __enter__", "async def __aenter__").replace("def __exit__", "async def __aexit__")
    body = re.sub(r"    def (?!__init__)(\w+)\(", r"    async def \1(", body)
    body = body.replace("self._call(", "await self._call(").replace("self.create(", "await self.create(")
    body = body.replace("async def await ", "async def ")
    body = body.replace("Iterator[", "AsyncIterator[").replace(
        "for item in self._items", "async for item in self._items"
    )
    body = body.replace(
        'await self._call("POST", "/v1/work/settle", body=body)[',
        '(await self._call("POST", "/v1/work/settle", body=body))[',
    )
    body = re.sub(r"await (self\._call\([^()]*\))\[", r"(await \1)[", body)
    body = re.sub(r"        return self\._transport\.call\(.*\n", lambda _: CALL, body)
    body = body.replace(
        "        self._transport = transport_of",
        "        self._limiter = anyio.CapacityLimiter(THREADS_MAX)\n        self._transport = transport_of",
    )
    body = body.replace(
        "May be shared by threads; connections are kept.",
        "May be shared by tasks of one event loop; connections are kept.",
    )
    return start + "class AsyncClient:" + body.rstrip() + "\n"


def main() -> int:
    made = make((SOURCE / "client.py").read_text())
    target = SOURCE / "async_client.py"
    if "--check" in sys.argv:
        if target.read_text() != made:
            print("async_client.py is not what client.py makes; run tools/make_async.py", file=sys.stderr)
            return 1
        return 0
    target.write_text(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
