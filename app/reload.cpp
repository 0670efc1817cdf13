// SPDX-License-Identifier: Apache-2.0
#include "app/reload.hpp"

#include <chrono>
#include <exception>
#include <string>
#include <vector>

#include "app/api_keys.hpp"
#include "app/logging.hpp"
#include "app/options/configuration_error.hpp"
#include "app/tls.hpp"
#include "telemetry/log.hpp"

namespace troupe {
namespace {

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const auto& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

// Read at each reload: their contents may have changed though no option has.
std::string files_read(const OptionSources& sources, const Options& options, const TlsIdentity* tls) {
  std::vector<std::string> files;
  if (sources.file) files.push_back(sources.file->string());
  if (!options.api_keys_file.empty()) files.push_back(options.api_keys_file);
  if (tls != nullptr) {
    files.push_back(tls->certificate_file().string());
    files.push_back(tls->key_file().string());
  }
  return joined(files);
}

// A file that was cut short is more likely than a server that is to be open from now on.
void check_keys_stay(const Options& options, const ServerOptions& access) {
  const bool had_keys = !options.api_key.empty() || !options.api_keys_file.empty();
  if (had_keys && access.api_keys.empty())
    throw ConfigurationError(
        "--api-key, --api-keys-file: no key is left; to serve without one needs a restart");
}

}  // namespace

Reload::Reload(const ServeCommand& command, Server& server, Tracer* tracer, TlsIdentity* tls)
    : sources_(command.sources), options_(command.options), server_(server), tracer_(tracer), tls_(tls) {}

bool Reload::run() {
  try {
    const Options asked = options_from(sources_);
    const OptionChanges changes = changes_between(options_, asked);
    const std::size_t num_keys = take(with_reloaded(options_, asked));
    log(LogLevel::kInfo, "the configuration was read anew",
        {{"changed", joined(changes.reloadable)},
         {"files", files_read(sources_, options_, tls_)},
         {"api_keys", num_keys}});
    if (!changes.need_restart.empty())
      log(LogLevel::kWarning, "options that have changed need a restart",
          {{"options", joined(changes.need_restart)}});
    return true;
  } catch (const std::exception& error) {
    log(LogLevel::kError, "the configuration stays as it was", {{"reason", error.what()}});
    return false;
  }
}

// Checks run before anything is replaced: a step that throws leaves the server as it was.
std::size_t Reload::take(const Options& asked) {
  ServerOptions access;
  read_access(asked, access);
  from_option("--api-key, --api-keys-file, --host", [&] { check_exposure(access); });
  check_keys_stay(options_, access);
  if (tls_ != nullptr) from_option("--tls-certificate, --tls-key", [&] { reload_tls_identity(*tls_); });
  server_.replace_access(access);
  configure_logging_from(asked);
  if (tracer_ != nullptr)
    tracer_->keep(asked.trace_sample_ratio, std::chrono::milliseconds(asked.trace_keep_slower_than_ms));
  options_ = asked;
  return access.api_keys.size();
}

}  // namespace troupe
