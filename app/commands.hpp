// SPDX-License-Identifier: Apache-2.0
// The commands of `troupe`, each in a source of its own. They give the exit status, and throw
// ConfigurationError or UsageError where they were asked for what can't be had.
#pragma once

#include "app/ending_signals.hpp"
#include "app/options/command_line.hpp"

namespace troupe {

// `troupe serve`: loads, listens, and stays until a signal or a failed engine. 0 after an
// orderly end, 70 if the engine gave up (a service manager should start us again). Throws
// ConfigurationError before anything is loaded, std::runtime_error if the model can't be served.
int run_serve(const ServeCommand& command, EndingSignals& signals);

// `troupe worker`: the process in which a server's device is (gpu/child). Its socket is
// descriptor 3. Returns when the server has gone.
int run_worker_process(const WorkerCommand& command);

// `troupe generate`: one prompt, tokens streamed to the terminal. 1 if the request failed (its
// error goes to standard error). Throws std::runtime_error if the model can't be loaded.
int run_generate(const GenerateCommand& command);

// `troupe perplexity`: prints how well a model predicts a text. Throws UsageError where windows
// can't be as asked for, std::runtime_error if the model can't be loaded or does not generate.
int run_perplexity(const PerplexityCommand& command);

// `troupe convert MODEL OUT`: prints convert_model() (app/convert/convert.hpp), and throws as it does.
int run_convert(const ConvertCommand& command);

// `troupe inspect DIR`: what a model directory holds, what memory it needs, and one clear word
// on anything unsupported. 0 if the model can be served, 1 if not.
int run_inspect(const InspectCommand& command);

// `troupe profile`: measures what batches cost on this machine, or takes it from iterations that
// were served, and what the engine adds, and stores it for `troupe-loadgen simulate`. Throws
// std::runtime_error if the model can't be loaded, the device fails, no cost can be fitted to the
// times or the file can't be written.
int run_profile(const ProfileCommand& command);

// `troupe doctor`: prints the findings (app/doctor/findings.hpp). 1 if one of them is a problem.
int run_doctor(const DoctorCommand& command);

// `troupe trace FILE`: a summary of a trace file, and a timeline for Perfetto. Throws
// std::runtime_error if the file can't be read, is no trace file, or the timeline can't be written.
int run_trace(const TraceCommand& command);

}  // namespace troupe
