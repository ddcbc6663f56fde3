"""TLS over bytes: no sockets, so that a handshake may begin with bytes that were read already
(a client that starts with TLS at once)."""

from __future__ import annotations

import ssl

_READ_SIZE = 1 << 16


class TlsLayer:
    """One server side of TLS. Not thread-safe: only the event loop uses it."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._established = False
        self.ended = False  # the peer has closed its side

    def receive(self, data: bytes) -> bytes:
        """Cipher text in, plain text out (empty during the handshake).

        Raises: ssl.SSLError when the peer does not speak TLS that we accept.
        """
        self._incoming.write(data)
        plain = []
        try:
            if not self._established:
                self._object.do_handshake()
                self._established = True
            while True:
                part = self._object.read(_READ_SIZE)
                if not part:
                    self.ended = True
                    break
                plain.append(part)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.ended = True
        return b"".join(plain)

    def send(self, data: bytes | memoryview) -> bytes:
        """Plain text in, cipher text out."""
        if data:
            self._object.write(data)
        return self.pending()

    def pending(self) -> bytes:
        """What TLS itself wants to send (handshake, alerts)."""
        return self._outgoing.read()


def server_context(certificate: str, key: str) -> ssl.SSLContext:
    """A context with this certificate chain and key (PEM files), TLS 1.2 and newer.

    Raises: OSError, ssl.SSLError when the files are not such.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols(["postgresql"])
    return context
