// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include <cstdio>
#include <utility>

#include "app/commands.hpp"
#include "gpu/child/worker_loop.hpp"
#include "gpu/child/worker_process.hpp"
#include "telemetry/log.hpp"

namespace troupe {
namespace {

constexpr int kUsageError = 64;  // sysexits: EX_USAGE

bool has_socket() {
  struct stat status {};
  return ::fstat(child::kWorkerSocket, &status) == 0 && S_ISSOCK(status.st_mode);
}

}  // namespace

int run_worker_process(const WorkerCommand& command) {
  if (!has_socket()) {
    std::fputs("troupe worker: is started by a server, not by hand\n", stderr);
    return kUsageError;
  }
  // Whatever ends the server, ends this. Until then it works on: a server that is
  // asked to end lets running answers finish.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::prctl(PR_SET_NAME, "troupe-worker");
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) ::signal(number, SIG_IGN);
  configure_logging(parse_log_level(command.log_level).value_or(LogLevel::kInfo),
                    command.log_format == "json" ? LogFormat::kJson : LogFormat::kText);
  child::FrameSocket socket{child::FileDescriptor(child::kWorkerSocket)};
  return child::run_worker(std::move(socket)) ? 0 : 1;
}

}  // namespace troupe
