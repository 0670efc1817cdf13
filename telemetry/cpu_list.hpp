// SPDX-License-Identifier: Apache-2.0
// CPUs by number, as people and the kernel write them ("0-2,5"), and those of a thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

// Ascending, each once. nullopt: not such a list, or empty, or of a number above 1023.
std::optional<std::vector<std::int32_t>> parse_cpu_list(std::string_view text);

// "0,1,2,5".
std::string cpu_list_text(const std::vector<std::int32_t>& cpus);

// The CPUs that the calling thread may run on.
std::vector<std::int32_t> cpus_of_thread();

// The calling thread runs on these only, as do threads and processes that it starts from then on. Throws
// std::system_error: the system does not allow one of them.
void keep_thread_to(const std::vector<std::int32_t>& cpus);

// The same while it lives. Empty: the thread stays as it is.
class ThreadOnCpus {
 public:
  explicit ThreadOnCpus(const std::vector<std::int32_t>& cpus);
  ~ThreadOnCpus();  // on the same thread
  ThreadOnCpus(const ThreadOnCpus&) = delete;
  ThreadOnCpus& operator=(const ThreadOnCpus&) = delete;

 private:
  std::vector<std::int32_t> before_;
};

}  // namespace troupe
