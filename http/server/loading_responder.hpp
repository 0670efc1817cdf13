// SPDX-License-Identifier: Apache-2.0
// Answers in place of the server, on all its ports, while the model is being
// loaded: /live says 200, all else 503 with Retry-After. One request a connection, on a thread
// of its own. Connections that come when it accepts no more wait in the socket's backlog for the server.
#pragma once

#include <memory>

#include "http/server/listening_socket.hpp"

namespace troupe {

class TlsIdentity;

class LoadingResponder {
 public:
  // The sockets stay the caller's. metrics, ollama: null if there is none. tls: null without
  // TLS; must outlive this. Throws std::system_error.
  LoadingResponder(const ListeningSocket& api, const ListeningSocket* metrics,
                   const ListeningSocket* ollama = nullptr, const TlsIdentity* tls = nullptr);
  // The server accepts from now on. Connections that this one has accepted get their
  // answers still, as long as it exists. Returns when it accepts no more.
  void stop_accepting();
  // Requests that are being read get their answer now. Does not wait for clients.
  ~LoadingResponder();
  LoadingResponder(const LoadingResponder&) = delete;
  LoadingResponder& operator=(const LoadingResponder&) = delete;

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace troupe
