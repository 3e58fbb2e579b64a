# Not urllib3.py, which Python would import in place of the library.
import sys

import urllib3

http = urllib3.PoolManager(retries=urllib3.Retry(total=1, status_forcelist=[429]))
for _ in range(4):
    response = http.request("GET", sys.argv[1])
    if response.status != 200:
        sys.exit(f"status {response.status}")
