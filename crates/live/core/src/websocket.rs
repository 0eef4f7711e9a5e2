//! WebSocket (RFC 6455): frames and messages, without a socket.
