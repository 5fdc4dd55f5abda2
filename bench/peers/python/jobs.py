"""The Celery application: one task, which notes that it started and posts itself if it is to post."""

import http.client
import json
import os
import struct
import time
from urllib.parse import urlsplit

from celery import Celery

ask = json.loads(os.environ["PEERS_ASK"])

app = Celery("bench", broker=ask["store"])
app.conf.update(
    # Nobody reads results, and nobody watches.
    task_ignore_result=True,
    worker_send_task_events=False,
    worker_disable_rate_limits=True,
    # Many short tasks: the guide on optimizing says 64 or 128 for each process.
    worker_prefetch_multiplier=128,
    # "Near millisecond precision" for tasks with an eta, as the reference has it.
    worker_timer_precision=0.1,
    broker_connection_retry_on_startup=True,
    worker_hijack_root_logger=False,
)

_records = -1
_connection = None


@app.task(name="bench")
def run(number, pad):
    global _records
    if _records < 0:
        # One file for all processes: an append of 16 bytes is never torn.
        _records = os.open(ask["records"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(_records, struct.pack("<qq", number, time.time_ns() // 1000))
    if ask["receiver"]:
        post(json.dumps({"number": number, "pad": pad}, separators=(",", ":")))


def post(body):
    """Over a connection that each process keeps."""
    global _connection
    target = urlsplit(ask["receiver"])
    if _connection is None:
        _connection = http.client.HTTPConnection(target.hostname, target.port)
    _connection.request("POST", target.path, body, {"Content-Type": "application/json"})
    answer = _connection.getresponse()
    answer.read()
    if answer.status != 200:
        raise RuntimeError(f"the receiver answered {answer.status}")
