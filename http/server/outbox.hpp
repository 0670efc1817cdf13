// SPDX-License-Identifier: Apache-2.0
// Carries events from engine threads to one io thread. However many events an
// iteration of the engine delivers, the io thread is woken once: the bell is
// rung only if it has not been since the thread last found nothing.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "actors/request/generation_request.hpp"

namespace troupe {

class ClientStream;

class Outbox {
 public:
  struct Entry {
    std::shared_ptr<ClientStream> stream;
    ResponseEvent event;
  };

  // ring: wakes the io thread, from any thread, without blocking.
  explicit Outbox(std::function<void()> ring) : ring_(std::move(ring)) {}

  // Any thread.
  void put(Entry entry);
  // The io thread: replaces `entries` by what has come in. If that is nothing,
  // returns false and arms the bell: the thread may sleep.
  bool take(std::vector<Entry>& entries);
  // The io thread, once it has handled what it took. True if nothing has come in since: the bell is
  // armed, and the thread may sleep.
  bool arm();
  // From now on what is put is dropped and the bell stays silent. Waits for one that is being rung.
  void close();

 private:
  std::mutex mutex_;
  std::vector<Entry> entries_;
  bool is_rung_ = false;
  bool is_closed_ = false;
  // Bells being rung, by threads that have let go of the lock: the thread that is woken needs it next.
  std::atomic<int> num_ringing_ = 0;
  const std::function<void()> ring_;
};

}  // namespace troupe
