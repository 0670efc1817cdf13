// SPDX-License-Identifier: Apache-2.0
#include "app/options.hpp"

#include "app/backend_choice.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <set>
#include <stdexcept>
#include <string>

#include "tests/support/temporary_directory.hpp"

using namespace troupe;

namespace {

std::string refusal(const OptionSources& sources) {
  try {
    resolve_options(sources);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("options: a flag beats the environment, which beats the file, which beats the default") {
  const TemporaryFile file("[server]\nport = 1\nhost = \"::1\"\n[device]\nthreads = 3\n");
  const auto options =
      resolve_options({.file = file.path(),
                       .environment = {{"TROUPE_SERVER_PORT", "2"}, {"TROUPE_DEVICE_THREADS", "4"}},
                       .flags = {{"--port", "5"}}});
  CHECK(options.port == 5);
  CHECK(options.threads == 4);
  CHECK(options.host == "::1");
  CHECK(options.max_in_flight == Options{}.max_in_flight);
}

TEST_CASE("options: a GPU is asked for by its number") {
  for (const auto* device : {"auto", "cuda", "cuda:0", "cuda:12", "host", "noop"})
    CHECK(resolve_options({.file = {}, .environment = {}, .flags = {{"--device", device}}}).device == device);
  for (const auto* device : {"cuda:", "cuda:N", "cuda:-1", "cuda:1x", "cuda:4000", "gpu", ""})
    CHECK(contains(refusal({.file = {}, .environment = {}, .flags = {{"--device", device}}}),
                   "expected one of auto, cuda, cuda:N, host, noop"));
}

TEST_CASE("options: an unknown key is refused with the nearest known name") {
  const TemporaryFile file("[server]\nprot = 1\n");
  const auto text = refusal({.file = file.path(), .environment = {}, .flags = {}});
  CHECK(contains(text, "server.prot"));
  CHECK(contains(text, "'server.port'"));
}

TEST_CASE("options: an unknown flag is refused with the nearest known name") {
  const auto text = refusal({.file = {}, .environment = {}, .flags = {{"--modle", "x"}}});
  CHECK(contains(text, "'--model'"));
}

TEST_CASE(
    "options: values out of range and of the wrong type name the key, what was expected and what came") {
  CHECK(contains(refusal({.file = {}, .environment = {}, .flags = {{"--port", "65536"}}}),
                 "0 to 65535, got '65536'"));
  CHECK(contains(refusal({.file = {}, .environment = {{"TROUPE_LOG_LEVEL", "loud"}}, .flags = {}}),
                 "TROUPE_LOG_LEVEL: expected one of debug"));
  const TemporaryFile wrong("[server]\nport = true\n");
  CHECK(contains(refusal({.file = wrong.path(), .environment = {}, .flags = {}}), "server.port"));
  const TemporaryFile list("[server]\nport = [1]\n");
  CHECK(contains(refusal({.file = list.path(), .environment = {}, .flags = {}}), "server.port"));
}

TEST_CASE("options: a file that is missing or malformed is named") {
  CHECK(contains(refusal({.file = "/nonexistent/t.toml", .environment = {}, .flags = {}}),
                 "/nonexistent/t.toml"));
  const TemporaryFile broken("[server\n");
  CHECK(contains(refusal({.file = broken.path(), .environment = {}, .flags = {}}),
                 broken.path().string() + ":"));
}

TEST_CASE("options: sizes carry units") {
  CHECK(resolve_options({.file = {}, .environment = {}, .flags = {{"--memory", "512MiB"}}}).memory_bytes ==
        512ULL << 20);
  CHECK(resolve_options({.file = {}, .environment = {}, .flags = {{"--memory", "2G"}}}).memory_bytes ==
        2ULL << 30);
  CHECK(contains(refusal({.file = {}, .environment = {}, .flags = {{"--memory", "99999999999GiB"}}}),
                 "--memory"));
  CHECK(contains(refusal({.file = {}, .environment = {}, .flags = {{"--port", "8K"}}}), "--port"));
}

TEST_CASE("options: the link to the host is as fast as memory unless it is told otherwise") {
  CHECK(Options{}.cache_link_bandwidth == 0);
  CHECK(Options{}.cache_link_latency_us == 0);
  const TemporaryFile file("[cache]\nlink_bandwidth = \"12GiB\"\nlink_latency_us = 10\n");
  const auto options = resolve_options({.file = file.path(), .environment = {}, .flags = {}});
  CHECK(options.cache_link_bandwidth == 12ULL << 30);
  CHECK(options.cache_link_latency_us == 10);
  CHECK(contains(refusal({.file = {}, .environment = {}, .flags = {{"--cache-link-bandwidth", "fast"}}}),
                 "--cache-link-bandwidth: expected a whole number"));
  CHECK(contains(refusal({.file = {}, .environment = {}, .flags = {{"--cache-link-latency-us", "-1"}}}),
                 "got '-1'"));
}

TEST_CASE(
    "options: every entry has a key, a flag and an environment name of its own, and its default is valid") {
  std::set<std::string> names;
  for (const auto& entry : option_table()) {
    CHECK(names.insert(std::string(entry.key)).second);
    CHECK(names.insert(std::string(entry.flag)).second);
    CHECK(names.insert(entry.environment_name()).second);
    Options options;
    CHECK_FALSE(set_option(options, entry, option_text(Options{}, entry)));
  }
}

TEST_CASE("options: the shipped configurations are valid") {
  for (const auto& file : std::filesystem::directory_iterator(TROUPE_SOURCE_DIR "/configs")) {
    if (file.path().extension() == ".toml")
      CHECK_NOTHROW(resolve_options({.file = file.path(), .environment = {}, .flags = {}}));
  }
}

TEST_CASE("options: a relative path in a file is relative to the file") {
  const TemporaryFile file("[model]\ndir = \"../models/demo\"\n");
  const auto options = resolve_options({.file = file.path(), .environment = {}, .flags = {}});
  const auto expected = (file.path().parent_path() / "../models/demo").lexically_normal();
  CHECK(options.model_dir == expected.string());
  CHECK(resolve_options({.file = {}, .environment = {}, .flags = {{"--model", "x/y"}}}).model_dir == "x/y");
}

TEST_CASE("options: a word in place of a path stays a word") {
  const TemporaryFile words("[store]\ndirectory = \"none\"\n");
  CHECK(resolve_options({.file = words.path(), .environment = {}, .flags = {}}).store_directory == "none");
  const TemporaryFile path("[store]\ndirectory = \"state\"\n");
  CHECK(resolve_options({.file = path.path(), .environment = {}, .flags = {}}).store_directory ==
        (path.path().parent_path() / "state").string());
}

TEST_CASE("options: numbers of batches that are left to the device are the device's") {
  const Options asked = resolve_options({.file = {}, .environment = {}, .flags = {}});
  CHECK(with_device_numbers(asked, DeviceKind::kHost).max_batch_tokens == 512);
  CHECK(with_device_numbers(asked, DeviceKind::kHost).prefill_chunk == 256);
  CHECK(with_device_numbers(asked, DeviceKind::kGpu).max_batch_tokens == 2048);
  CHECK(with_device_numbers(asked, DeviceKind::kGpu).prefill_chunk == 2048);
  const Options named =
      resolve_options({.file = {}, .environment = {}, .flags = {{"--max-batch-tokens", "100"}}});
  for (const DeviceKind kind : {DeviceKind::kHost, DeviceKind::kGpu}) {
    CHECK(with_device_numbers(named, kind).max_batch_tokens == 100);
    CHECK(with_device_numbers(named, kind).prefill_chunk == 100);
  }
}
