// SPDX-License-Identifier: Apache-2.0
// The server's identity for clients that ask for TLS: certificate, key, and
// how TLS is spoken with them (1.2 and 1.3, ciphers with forward secrecy, HTTP/1.1).
// Both files can be read anew while connections come and go.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>

#include "http/tls/tls_session.hpp"

namespace troupe {

// Any thread.
class TlsIdentity {
 public:
  using TimePoint = std::chrono::system_clock::time_point;

  // Files of PEM: the certificate, behind it those that lead from it to one that clients
  // know; and its key, without a passphrase. Throws std::runtime_error that says which file
  // is wrong and why.
  TlsIdentity(std::filesystem::path certificate, std::filesystem::path key);
  ~TlsIdentity();
  TlsIdentity(const TlsIdentity&) = delete;
  TlsIdentity& operator=(const TlsIdentity&) = delete;

  // Sessions that begin from now on show what the files hold now; others stay as they
  // are. Throws as the constructor does: then nothing changes.
  void reload();

  // When the certificate begins and ceases to be good, to the second.
  TimePoint not_before() const;
  TimePoint not_after() const;
  const std::filesystem::path& certificate_file() const { return certificate_; }
  const std::filesystem::path& key_file() const { return key_; }

  // A session of the server's side on a socket that does not block. Throws
  // std::runtime_error if memory is short.
  std::unique_ptr<TlsSession> begin_session(int socket) const;

 private:
  struct Free {
    void operator()(ssl_ctx_st* context) const;
  };
  using Context = std::unique_ptr<ssl_ctx_st, Free>;

  Context load() const;

  const std::filesystem::path certificate_, key_;
  mutable std::mutex mutex_;
  Context context_;
};

}  // namespace troupe
