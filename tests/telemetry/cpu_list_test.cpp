// SPDX-License-Identifier: Apache-2.0
#include "telemetry/cpu_list.hpp"

#include <doctest/doctest.h>

#include <system_error>
#include <thread>

using namespace troupe;

TEST_CASE("cpu list: numbers and ranges, ascending and each once") {
  using Cpus = std::vector<std::int32_t>;
  CHECK(parse_cpu_list("3") == Cpus{3});
  CHECK(parse_cpu_list("0-2,5") == Cpus{0, 1, 2, 5});
  CHECK(parse_cpu_list("5,0-2,1") == Cpus{0, 1, 2, 5});
  CHECK(parse_cpu_list("1023") == Cpus{1023});
  CHECK(cpu_list_text({0, 1, 5}) == "0,1,5");
}

TEST_CASE("cpu list: anything else is none") {
  for (const char* wrong :
       {"", ",", "1,", ",1", "-1", "1-", "2-1", "a", "1 2", "1, 2", "0x1", "1024", "1-2-3"}) {
    CAPTURE(wrong);
    CHECK_FALSE(parse_cpu_list(wrong).has_value());
  }
}

TEST_CASE("cpu list: a thread is kept to its CPUs with the threads it starts, and freed at the end") {
  const auto before = cpus_of_thread();
  REQUIRE_FALSE(before.empty());
  {
    const ThreadOnCpus kept({before.back()});
    CHECK(cpus_of_thread() == std::vector{before.back()});
    std::vector<std::int32_t> of_started;
    std::thread([&] { of_started = cpus_of_thread(); }).join();
    CHECK(of_started == std::vector{before.back()});
  }
  CHECK(cpus_of_thread() == before);
  {
    const ThreadOnCpus free({});
    CHECK(cpus_of_thread() == before);
  }
}

TEST_CASE("cpu list: a CPU that is not there is an error") {
  const auto before = cpus_of_thread();
  if (before.back() == 1023) return;
  CHECK_THROWS_AS(keep_thread_to({1023}), std::system_error);
  CHECK(cpus_of_thread() == before);
}
