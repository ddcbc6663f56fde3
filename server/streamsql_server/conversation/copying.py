"""COPY over the wire: rows out, and a COPY FROM STDIN in progress."""

from __future__ import annotations

import contextlib

from streamsql.core.errors import QueryCanceled, StreamSqlError
from streamsql.engine.api import CopyIn, CopyOut, Result
from streamsql_server.conversation.activity import Activity
from streamsql_server.conversation.output import Output
from streamsql_server.conversation.results import send_notices
from streamsql_server.encoding.copy_rows import CopyEncoder
from streamsql_server.encoding.wire_type import WireContext
from streamsql_server.protocol import messages


def send_copy(
    copy: CopyOut, result: Result, context: WireContext, output: Output, activity: Activity
) -> str:
    """Sends all rows of COPY … TO STDOUT; returns the command tag."""
    assert result.columns is not None
    encoder = CopyEncoder(copy, result.columns, context)
    output.send(messages.copy_out_response(int(encoder.binary), len(result.columns)))
    output.send(encoder.header())
    rows = 0
    with activity.running():
        activity.streaming = result.streaming
        for batch in result.batches:
            for chunk in encoder.encode(batch):
                output.wait_writable()
                output.send(chunk)
            rows += batch.num_rows
            activity.check()
            if result.streaming:
                output.flush()
    output.send(encoder.finish())
    output.send(messages.COPY_DONE)
    send_notices(result, output)
    return f"COPY {rows}"


class CopyInProgress:
    """COPY … FROM STDIN between its CopyInResponse and its end."""

    def __init__(self, copy: CopyIn, *, extended: bool) -> None:
        self._copy = copy
        self.extended = extended

    def announce(self, output: Output) -> None:
        """Asks the client for data; must reach it at once."""
        binary = int(self._copy.format == "binary")
        output.send(messages.copy_in_response(binary, self._copy.column_count))
        output.flush()

    def write(self, data: bytes) -> None:
        """A piece of data. Raises what the rows in it raise."""
        self._copy.write(data)

    def finish(self) -> Result:
        """All data was sent."""
        return self._copy.finish()

    def give_up(self, reason: str) -> QueryCanceled:
        """The client, or an error, ended it: nothing of it stays. Returns the error to report."""
        with contextlib.suppress(StreamSqlError):
            self._copy.fail(reason)
        return QueryCanceled(f"COPY from stdin failed: {reason}")

    def abort(self) -> None:
        """As give_up, when another error is reported already."""
        with contextlib.suppress(StreamSqlError):
            self._copy.fail("aborted")
