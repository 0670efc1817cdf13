// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <exception>

#include "app/commands.hpp"
#include "app/ending_signals.hpp"
#include "app/loading/cpu_placement.hpp"
#include "app/logging.hpp"
#include "app/options/command_line.hpp"
#include "app/options/configuration_error.hpp"
#include "app/options/usage_error.hpp"

namespace {

using namespace troupe;

constexpr int kCannotStart = 1;

int run(const Command& command) {
  if (const auto* message = std::get_if<Message>(&command)) {
    std::fputs(message->text.c_str(), message->exit_status == 0 ? stdout : stderr);
    return message->exit_status;
  }
  if (const auto* serve = std::get_if<ServeCommand>(&command)) {
    keep_to_placement(serve->options);  // first: all threads are to inherit it
    EndingSignals signals;              // then: the log's thread is to inherit the mask
    configure_logging_from(serve->options);
    return run_serve(*serve, signals);
  }
  if (const auto* generate = std::get_if<GenerateCommand>(&command)) {
    keep_to_placement(generate->options);
    configure_logging_from(generate->options);
    return run_generate(*generate);
  }
  if (const auto* perplexity = std::get_if<PerplexityCommand>(&command)) {
    keep_to_placement(perplexity->options);
    configure_logging_from(perplexity->options);
    return run_perplexity(*perplexity);
  }
  if (const auto* convert = std::get_if<ConvertCommand>(&command)) {
    configure_logging_from(convert->options);
    return run_convert(*convert);
  }
  if (const auto* profile = std::get_if<ProfileCommand>(&command)) {
    keep_to_placement(profile->options);
    configure_logging_from(profile->options);
    return run_profile(*profile);
  }
  if (const auto* doctor = std::get_if<DoctorCommand>(&command)) return run_doctor(*doctor);
  if (const auto* trace = std::get_if<TraceCommand>(&command)) return run_trace(*trace);
  if (const auto* worker = std::get_if<WorkerCommand>(&command)) return run_worker_process(*worker);
  return run_inspect(std::get<InspectCommand>(command));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(parse_command_line(argc, argv));
  } catch (const UsageError& error) {
    std::fprintf(stderr, "troupe: %s\n", error.what());
    return kUsageStatus;
  } catch (const ConfigurationError& error) {
    std::fprintf(stderr, "troupe: %s\n", error.what());
    return kConfigurationStatus;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "troupe: %s\n", error.what());
    return kCannotStart;
  }
}
