// SPDX-License-Identifier: Apache-2.0
#include "gpu/child/worker.hpp"

#include <signal.h>

#include <stdexcept>

namespace troupe::child {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A machine that is very busy starts a program slowly.
constexpr seconds kGreetingTime{60};
// For a process that has closed its connection, or was asked to end.
constexpr seconds kEndTime{2};

std::string in_words(milliseconds time) {
  return std::to_string(std::chrono::duration_cast<seconds>(time).count()) + " s";
}

}  // namespace

Worker::Worker(Command command) {
  auto [ours, theirs] = FrameSocket::connected_pair();
  process_ = std::make_unique<WorkerProcess>(std::move(command), theirs.descriptor());
  theirs.close();
  socket_ = std::move(ours);
  greet();
}

Worker::~Worker() {
  socket_.close();
  if (process_) process_->wait_for(kEndTime);
}

void Worker::greet() {
  const auto hello = ask<Hello>(Hello{}, kGreetingTime);
  if (hello.fingerprint != kBackendFingerprint)
    throw std::runtime_error("the worker process is of another build");
}

Frame Worker::ask(const std::vector<std::byte>& question, MessageKind answer, milliseconds time,
                  int descriptor) {
  try {
    socket_.send(std::span<const std::byte>(question), descriptor);
    const auto frame = socket_.receive(time);
    if (!frame)
      throw std::runtime_error("the worker process gave no " + std::string(name_of(answer)) + " within " +
                               in_words(time));
    if (frame->kind == MessageKind::kWorkerError) throw std::runtime_error(decode<WorkerError>(*frame).text);
    return *frame;
  } catch (const ConnectionLost&) {
    throw std::runtime_error(end_in_words() + " before it gave its " + name_of(answer));
  }
}

bool Worker::is_idle() {
  try {
    return !socket_.receive(milliseconds(0));
  } catch (const std::runtime_error&) {
    return false;
  }
}

void Worker::kill() {
  if (process_) process_->signal(SIGKILL);
}

std::string Worker::end_in_words() {
  const std::string who = "the worker process ";
  if (!process_) return who + "closed its connection";
  if (const auto end = process_->wait_for(kEndTime)) return who + to_string(*end);
  kill();
  return who + "closed its connection and did not end";
}

}  // namespace troupe::child
