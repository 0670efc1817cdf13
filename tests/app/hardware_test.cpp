// SPDX-License-Identifier: Apache-2.0
#include "app/loading/hardware.hpp"

#include <doctest/doctest.h>

#include <fstream>

#include "tests/support/temporary_directory.hpp"

using namespace troupe;
using namespace troupe::test;

namespace {

void put(const TemporaryDirectory& root, const std::string& name, const std::string& text) {
  const auto path = root.path() / name;
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text << "\n";
}

}  // namespace

TEST_CASE("hardware: two threads of a core count as one core, memory nodes as far as CPUs are of them") {
  const TemporaryDirectory root;
  for (int cpu = 0; cpu < 4; ++cpu)
    put(root, "sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list",
        cpu % 2 == 0 ? "0,2" : "1,3");
  put(root, "sys/devices/system/node/node0/cpulist", "0-1,7");
  put(root, "sys/devices/system/node/node1/cpulist", "2-3");
  put(root, "sys/devices/system/node/node2/cpulist", "4-5");
  const GrantedCpus all = read_granted_cpus(root.path(), {0, 1, 2, 3});
  CHECK(all == GrantedCpus{.num_cpus = 4, .num_cores = 2, .num_nodes = 2});
  CHECK(read_granted_cpus(root.path(), {0, 1}) == GrantedCpus{.num_cpus = 2, .num_cores = 2, .num_nodes = 1});
  CHECK(read_granted_cpus(root.path(), {1, 3}) == GrantedCpus{.num_cpus = 2, .num_cores = 1, .num_nodes = 2});
}

TEST_CASE("hardware: threads are bound to one CPU of each core first") {
  const TemporaryDirectory root;
  const char* const siblings[] = {"0-1", "0-1", "2-3", "2-3"};
  for (int cpu = 0; cpu < 4; ++cpu)
    put(root, "sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list",
        siblings[cpu]);
  CHECK(cpus_by_core(root.path(), {0, 1, 2, 3}) == std::vector<std::int32_t>{0, 2, 1, 3});
  CHECK(cpus_by_core(root.path(), {1, 2, 3}) == std::vector<std::int32_t>{1, 2, 3});
  CHECK(cpus_by_core(root.path(), {5, 4}) == std::vector<std::int32_t>{5, 4});  // nothing is known of them
}

TEST_CASE("hardware: the tightest bound of all control groups above the process counts") {
  const TemporaryDirectory root;
  put(root, "proc/self/cgroup", "0::/system.slice/troupe.service");
  put(root, "sys/fs/cgroup/cpu.max", "max 100000");
  put(root, "sys/fs/cgroup/system.slice/cpu.max", "150000 100000");
  put(root, "sys/fs/cgroup/system.slice/troupe.service/cpu.max", "400000 100000");
  put(root, "sys/fs/cgroup/system.slice/memory.max", "max");
  put(root, "sys/fs/cgroup/system.slice/troupe.service/memory.max", "1048576");
  const GrantedCpus granted = read_granted_cpus(root.path(), {0});
  CHECK(granted.quota == doctest::Approx(1.5));
  CHECK(granted.memory_limit == 1048576);
}

TEST_CASE("hardware: control groups of version 1 bound the time and the memory, too") {
  const TemporaryDirectory root;
  put(root, "proc/self/cgroup",
      "12:cpuset:/\n5:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n0::/system.slice");
  put(root, "sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "250000");
  put(root, "sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000");
  put(root, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1");
  put(root, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000");
  put(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  put(root, "sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "2097152");
  const GrantedCpus granted = read_granted_cpus(root.path(), {0, 1, 2, 3});
  CHECK(granted.quota == doctest::Approx(2.5));
  CHECK(granted.memory_limit == 2097152);
}

TEST_CASE("hardware: a container that sees its own group as the root finds its bounds there") {
  const TemporaryDirectory root;
  put(root, "proc/self/cgroup", "5:cpu:/docker/abc\n4:memory:/docker/abc");
  put(root, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "150000");
  put(root, "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
  put(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "1048576");
  const GrantedCpus granted = read_granted_cpus(root.path(), {0, 1});
  CHECK(granted.quota == doctest::Approx(1.5));
  CHECK(granted.memory_limit == 1048576);
}

TEST_CASE("hardware: there are as many threads as cores, but no more than CPUs whose time is granted") {
  CHECK(default_threads({.num_cpus = 8, .num_cores = 8}) == 8);
  CHECK(default_threads({.num_cpus = 8, .num_cores = 4}) == 4);
  CHECK(default_threads({.num_cpus = 8, .num_cores = 4, .quota = 6}) == 4);
  CHECK(default_threads({.num_cpus = 8, .num_cores = 8, .quota = 2.5}) == 2);
  CHECK(default_threads({.num_cpus = 8, .num_cores = 8, .quota = 0.5}) == 1);
  CHECK(default_threads({.num_cpus = 8, .num_cores = 8, .quota = 100}) == 8);
  CHECK(default_threads({}) == 1);
  CHECK(has_cpu_quota({.num_cpus = 8, .quota = 7.9}));
  CHECK_FALSE(has_cpu_quota({.num_cpus = 8, .quota = 8}));
  CHECK_FALSE(has_cpu_quota({.num_cpus = 8}));
}

TEST_CASE("hardware: files that are missing or hold nonsense tell of no bound") {
  const TemporaryDirectory root;
  CHECK(read_granted_cpus(root.path(), {3, 5}) == GrantedCpus{.num_cpus = 2, .num_cores = 2});
  put(root, "sys/fs/cgroup/cpu.max", "100000 0");
  put(root, "sys/fs/cgroup/memory.max", "much");
  put(root, "sys/devices/system/node/node0/cpulist", "a-b");
  CHECK(read_granted_cpus(root.path(), {3, 5}) == GrantedCpus{.num_cpus = 2, .num_cores = 2});
}

TEST_CASE("hardware: this process may use at least one CPU") {
  CHECK(!usable_cpus().empty());
  CHECK(default_threads(granted_cpus()) >= 1);
}
