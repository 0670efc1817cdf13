// SPDX-License-Identifier: Apache-2.0
// SIGHUP: the configuration's file, the keys and the certificate are read anew while the
// server goes on. All of it is read before anything changes, so a file that can't be used
// changes nothing.
#pragma once

#include <cstddef>

#include "app/options/command_line.hpp"
#include "http/server/server.hpp"
#include "http/tls/tls_identity.hpp"
#include "telemetry/tracing/tracer.hpp"

namespace troupe {

// One thread.
class Reload {
 public:
  // tracer, tls: null without; all outlive this.
  Reload(const ServeCommand& command, Server& server, Tracer* tracer, TlsIdentity* tls);

  // Puts in force what is_reloadable() and has changed. The log names it, and what else
  // has changed and needs a restart; or why everything stays as it was: false then.
  bool run();

  // In force now.
  const Options& options() const { return options_; }

 private:
  // The number of keys.
  std::size_t take(const Options& asked);

  const OptionSources sources_;
  Options options_;
  Server& server_;
  Tracer* tracer_;
  TlsIdentity* tls_;
};

}  // namespace troupe
