// SPDX-License-Identifier: Apache-2.0
#include "app/options/options.hpp"

#include "app/loading/backend_choice.hpp"

#include <doctest/doctest.h>

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "app/loading/hardware.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace troupe;

namespace options_test {
namespace {

std::string refusal(const OptionSources& sources) {
  try {
    resolve_options(sources);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

OptionSources of_flags(std::vector<std::pair<std::string, std::string>> flags) {
  return {.file = {}, .environment = {}, .flags = std::move(flags)};
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
  CHECK(options.serving.max_in_flight == Options{}.serving.max_in_flight);
}

TEST_CASE("options: Ollama's API is served only where a port is named for it") {
  CHECK(Options{}.ollama_port == 0);
  CHECK(resolve_options(of_flags({{"--ollama-port", "11434"}})).ollama_port == 11434);
  CHECK(contains(refusal(of_flags({{"--ollama-port", "65536"}})), "--ollama-port"));
}

TEST_CASE("options: a GPU is asked for by its number") {
  for (const auto* device : {"auto", "cuda", "cuda:0", "cuda:12", "cuda:all", "cpu", "noop"})
    CHECK(resolve_options({.file = {}, .environment = {}, .flags = {{"--device", device}}}).device == device);
  for (const auto* device : {"cuda:", "cuda:al", "cuda:N", "cuda:-1", "cuda:1x", "cuda:4000", "gpu", ""})
    CHECK(contains(refusal({.file = {}, .environment = {}, .flags = {{"--device", device}}}),
                   "expected one of auto, cuda, cuda:N, cuda:all, cpu, noop, host"));
}

TEST_CASE("options: a file's blocks are kept, opened or made anew in 8 or 4 bits, which no GPU takes") {
  CHECK(backend_settings(resolve_options(of_flags({}))).quantization == Quantization::kKeep);
  for (const auto& [text, quantization] : {std::pair{"keep", Quantization::kKeep},
                                           {"none", Quantization::kNone},
                                           {"q8", Quantization::kQ8},
                                           {"q4", Quantization::kQ4}})
    CHECK(backend_settings(resolve_options(of_flags({{"--quantize", text}}))).quantization == quantization);
  for (const auto* text : {"", "q5", "Q8", "int8", "8"})
    CHECK(contains(refusal(of_flags({{"--quantize", text}})), "expected one of keep, none, q8, q4"));
  Options options = resolve_options(of_flags({{"--quantize", "q4"}, {"--device", "cuda"}}));
  CHECK_THROWS_WITH_AS(check_cuda_settings(options),
                       "--quantize: quantized weights run on the CPU only, with --device cpu",
                       std::runtime_error);
  for (const auto* text : {"keep", "none"}) {
    options.quantize = text;
    options.device = "cuda:all";
    CHECK_THROWS_WITH_AS(check_cuda_settings(options), doctest::Contains("--cuda-library"),
                         std::runtime_error);
  }
}

TEST_CASE("options: KV in 8 bits is for the CPU") {
  CHECK(backend_settings(resolve_options(of_flags({}))).kv_type == KvType::kComputed);
  CHECK(backend_settings(resolve_options(of_flags({{"--kv-type", "q8"}}))).kv_type == KvType::kQ8);
  CHECK(contains(refusal(of_flags({{"--kv-type", "q4"}})), "expected one of auto, q8"));
  CHECK_THROWS_WITH_AS(
      check_cuda_settings(resolve_options(of_flags({{"--kv-type", "q8"}, {"--device", "cuda:all"}}))),
      "--kv-type: KV in 8 bits is kept on the CPU only, with --device cpu", std::runtime_error);
}

TEST_CASE("options: activations in 8 bits are for the CPU, by default for weights of fewer bits") {
  CHECK(backend_settings(resolve_options(of_flags({}))).activations == Activations::kBelow8Bits);
  CHECK(backend_settings(resolve_options(of_flags({{"--activations", "exact"}}))).activations ==
        Activations::kComputed);
  CHECK(backend_settings(resolve_options(of_flags({{"--activations", "q8"}}))).activations ==
        Activations::kQ8);
  CHECK(contains(refusal(of_flags({{"--activations", "q4"}})), "expected one of auto, exact, q8"));
  CHECK_THROWS_WITH_AS(
      check_cuda_settings(resolve_options(of_flags({{"--activations", "q8"}, {"--device", "cuda:0"}}))),
      "--activations: rows of products are rounded to 8 bits on the CPU only, with --device cpu",
      std::runtime_error);
}

TEST_CASE("options: packed weights are kept in the store's directory, as many as may be") {
  const auto settings = backend_settings(
      resolve_options(of_flags({{"--store-directory", "/a/b"}, {"--weights-disk-space", "3GiB"}})));
  CHECK(settings.kept_weights == "/a/b/weights");
  CHECK(settings.kept_weights_bytes == 3ULL << 30);
  CHECK(backend_settings(resolve_options(of_flags({{"--store-directory", "none"}}))).kept_weights.empty());
}

TEST_CASE("options: host is another name of the device cpu, wherever it is given") {
  const TemporaryFile file("[device]\nkind = \"host\"\n");
  CHECK(resolve_options({.file = file.path(), .environment = {}, .flags = {}}).device == "cpu");
  CHECK(resolve_options({.file = {}, .environment = {{"TROUPE_DEVICE_KIND", "host"}}, .flags = {}}).device ==
        "cpu");
  CHECK(resolve_options({.file = {}, .environment = {}, .flags = {{"--device", "host"}}}).device == "cpu");
}

TEST_CASE("options: a FIFO as the file is refused, and nobody waits for a writer") {
  const test::TemporaryDirectory directory;
  const auto file = directory.path() / "fifo";
  REQUIRE(::mkfifo(file.c_str(), 0600) == 0);
  const auto text = refusal({.file = file.string(), .environment = {}, .flags = {}});
  CHECK(contains(text, "fifo: expected a regular file"));
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

TEST_CASE("options: an unknown variable is refused with the nearest known name") {
  const auto text = refusal({.file = {}, .environment = {{"TROUPE_SERVER_PRT", "1"}}, .flags = {}});
  CHECK(contains(text, "'TROUPE_SERVER_PRT'"));
  CHECK(contains(text, "did you mean 'TROUPE_SERVER_PORT'?"));
}

TEST_CASE("options: variables that Kubernetes or our tools set are none of ours") {
  // Of services called troupe, troupe-server and troupe-blue.
  const std::map<std::string, std::string> links = {
      {"TROUPE_SERVICE_HOST", "10.0.0.7"},         {"TROUPE_SERVICE_PORT", "80"},
      {"TROUPE_SERVICE_PORT_HTTP", "80"},          {"TROUPE_PORT", "tcp://10.0.0.7:80"},
      {"TROUPE_PORT_80_TCP", "tcp://10.0.0.7:80"}, {"TROUPE_PORT_80_TCP_PROTO", "tcp"},
      {"TROUPE_PORT_80_TCP_PORT", "80"},           {"TROUPE_PORT_80_TCP_ADDR", "10.0.0.7"},
      {"TROUPE_SERVER_PORT", "tcp://10.0.0.8:80"}, {"TROUPE_BLUE_PORT_53_UDP", "udp://10.0.0.9:53"}};
  CHECK(resolve_options({.file = {}, .environment = links, .flags = {}}).port == Options{}.port);
  CHECK_NOTHROW(resolve_options({.file = {}, .environment = {{"TROUPE_DISCONNECTS", "10"}}, .flags = {}}));
  for (const auto& entry : option_table())
    for (const char* mark : {"_SERVICE_HOST", "_SERVICE_PORT", "_TCP", "_UDP"})
      CHECK_FALSE(contains(entry.environment_name(), mark));
}

TEST_CASE("options: text with control characters in it is refused, and not repeated") {
  const auto text =
      refusal({.file = {}, .environment = {}, .flags = {{"--cors-origins", "http://a\r\nX: y"}}});
  CHECK(contains(text, "--cors-origins: expected"));
  CHECK_FALSE(contains(text, "\r"));
}

TEST_CASE(
    "options: values out of range and of the wrong type name the key, what was expected and what came") {
  CHECK(contains(refusal({.file = {}, .environment = {}, .flags = {{"--port", "65536"}}}),
                 "0 to 65535, got '65536'"));
  CHECK(contains(refusal({.file = {}, .environment = {{"TROUPE_LOG_LEVEL", "loud"}}, .flags = {}}),
                 "TROUPE_LOG_LEVEL: expected one of debug"));
  CHECK(contains(refusal({.file = {}, .environment = {}, .flags = {{"--max-waiting", "0"}}}),
                 "1 to 65536, got '0'"));
  const TemporaryFile wrong("[server]\nport = true\n");
  CHECK(contains(refusal({.file = wrong.path(), .environment = {}, .flags = {}}), "server.port"));
  const TemporaryFile list("[server]\nport = [1]\n");
  CHECK(contains(refusal({.file = list.path(), .environment = {}, .flags = {}}), "server.port"));
}

TEST_CASE("options: a file that is missing or malformed is named") {
  CHECK(contains(refusal({.file = "/nonexistent/t.toml", .environment = {}, .flags = {}}),
                 "/nonexistent/t.toml"));
  const auto directory = refusal({.file = "/tmp", .environment = {}, .flags = {}});
  CHECK(directory == "--config /tmp: expected a TOML file, got a directory");
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
  CHECK(options.models.front().dir == expected.string());
  CHECK(resolve_options(of_flags({{"--model", "x/y"}})).models.front().dir == "x/y");
}

TEST_CASE("options: aliases of models are names or the sign for all") {
  CHECK(resolve_options(of_flags({{"--model-aliases", "claude-haiku-4-5, gpt-5"}})).model_aliases ==
        "claude-haiku-4-5, gpt-5");
  CHECK(resolve_options(of_flags({{"--model-aliases", "*"}})).model_aliases == "*");
  CHECK(
      contains(refusal(of_flags({{"--model-aliases", "gpt-5,a b"}})), "--model-aliases: expected 1 to 128"));
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
  CHECK(with_device_numbers(asked, DeviceKind::kCpu).serving.max_batch_tokens == 512);
  CHECK(with_device_numbers(asked, DeviceKind::kCpu).serving.prefill_chunk == 256);
  CHECK(with_device_numbers(asked, DeviceKind::kGpu).serving.max_batch_tokens == 2048);
  CHECK(with_device_numbers(asked, DeviceKind::kGpu).serving.prefill_chunk == 2048);
  CHECK(with_device_numbers(asked, DeviceKind::kCpu).serving.max_batch_sequences == 64);
  CHECK(with_device_numbers(asked, DeviceKind::kGpu).serving.max_batch_sequences == 256);
  CHECK(with_device_numbers(asked, DeviceKind::kCpu).serving.max_in_flight == 2);
  CHECK(with_device_numbers(asked, DeviceKind::kGpu).serving.max_in_flight == 0);  // its backend's
  const Options named =
      resolve_options({.file = {}, .environment = {}, .flags = {{"--max-batch-tokens", "100"}}});
  for (const DeviceKind kind : {DeviceKind::kCpu, DeviceKind::kGpu}) {
    CHECK(with_device_numbers(named, kind).serving.max_batch_tokens == 100);
    CHECK(with_device_numbers(named, kind).serving.prefill_chunk == 100);
  }
}

TEST_CASE("options: memory of the host tier is auto, none, or as much as is said") {
  const auto asked = [](const char* text) {
    return resolve_options(of_flags({{"--cache-host-memory", text}})).cache_host_memory;
  };
  CHECK(asked("auto") == kHostMemoryAuto);
  CHECK(Options{}.cache_host_memory == kHostMemoryAuto);
  CHECK(asked("0") == 0);
  CHECK(asked("2GiB") == std::uint64_t{2} << 30);
  const TemporaryFile file("[cache]\nhost_memory = \"auto\"\n[scheduler]\nmax_in_flight = \"auto\"\n");
  CHECK(resolve_options({.file = file.path(), .environment = {}, .flags = {}}).cache_host_memory ==
        kHostMemoryAuto);
  CHECK(contains(refusal(of_flags({{"--cache-host-memory", "all"}})), "expected auto or a whole number"));
}

TEST_CASE("options: workers divide the threads, and none is bound to a core") {
  Options options;
  options.threads = 7;
  options.num_workers = 3;
  CHECK(backend_settings(options).num_threads == 2);
  CHECK(backend_settings(options).num_devices == 3);
  CHECK(backend_settings(options).cpus.empty());
  options.threads = 2;
  CHECK(backend_settings(options).num_threads == 1);
  options.threads = 0;
  CHECK(backend_settings(options).num_threads >= 1);
  options.num_workers = 1;
  CHECK(backend_settings(options).num_threads == default_threads(granted_cpus()));
  options.num_workers = 0;  // left to the device
  CHECK(backend_settings(options).num_threads == default_threads(granted_cpus()));
  CHECK(backend_settings(options).num_devices == 1);
  CHECK(with_device_numbers(options, DeviceKind::kCpu).num_workers == 1);
}

TEST_CASE("options: threads are pinned from the model's first core on") {
  const auto cpus = usable_cpus_by_core();
  if (cpus.size() < 2) {
    MESSAGE("SKIPPED: there is one core only");
    return;
  }
  Options options;
  options.threads = 1;
  options.first_cpu = 1;
  CHECK(backend_settings(options).cpus == std::vector(cpus.begin() + 1, cpus.end()));
  options.first_cpu = cpus.size();
  CHECK(backend_settings(options).cpus.empty());
}

TEST_CASE("options: a model is given by a flag, a variable or [model], each of its keys by itself") {
  const TemporaryFile file("[model]\ndir = \"/a/file\"\nname = \"filed\"\n");
  const auto options =
      resolve_options({.file = file.path(), .environment = {}, .flags = {{"--model", "/a/flag"}}});
  REQUIRE(options.models.size() == 1);
  CHECK(options.models[0].dir == "/a/flag");
  CHECK(options.models[0].name == "filed");
  const auto named =
      resolve_options({.file = file.path(), .environment = {{"TROUPE_MODEL_NAME", "varied"}}, .flags = {}});
  CHECK(named.models[0].dir == "/a/file");
  CHECK(named.models[0].name == "varied");
  CHECK(resolve_options({.file = {}, .environment = {}, .flags = {}}).models[0].dir == "models/demo");
}

TEST_CASE("options: --model may be repeated, and names go to the models in their order") {
  const auto options =
      resolve_options(of_flags({{"--model", "/m/a"}, {"--model-name", "first"}, {"--model", "/m/b"}}));
  REQUIRE(options.models.size() == 2);
  CHECK(options.models[0].dir == "/m/a");
  CHECK(served_name(options.models[0]) == "first");
  CHECK(options.models[1].dir == "/m/b");
  CHECK(served_name(options.models[1]) == "b");
  CHECK(contains(refusal(of_flags({{"--model-name", "a"}, {"--model-name", "b"}})),
                 "--model-name: expected at most one for each model, got 2 for 1"));
  CHECK(contains(refusal(of_flags({{"--model", "a"}, {"--model-name", "a b"}})),
                 "--model-name: expected 1 to 128 letters"));
}

TEST_CASE("options: each [[model]] is a model") {
  const TemporaryFile file(
      "[[model]]\ndir = \"a\"\nmemory_share = 0.25\n"
      "[[model]]\ndir = \"/m/b\"\nname = \"other\"\nmax_batch_sequences = 2\nmax_waiting = 5\n[server]\nport "
      "= 1\n");
  const auto options = resolve_options({.file = file.path(), .environment = {}, .flags = {}});
  REQUIRE(options.models.size() == 2);
  CHECK(options.models[0].dir == (file.path().parent_path() / "a").string());
  CHECK(options.models[0].memory_share == 0.25);
  CHECK(options.models[1].dir == "/m/b");
  CHECK(options.models[1].name == "other");
  CHECK(options.models[1].memory_share == 0);
  CHECK(options.models[0].max_waiting == 0);
  CHECK(options.models[1].max_batch_sequences == 2);
  CHECK(options.models[1].max_waiting == 5);
  CHECK(options.port == 1);
}

TEST_CASE("options: models of the command line or the environment take the place of several of the file") {
  const TemporaryFile file("[[model]]\ndir = \"/m/a\"\nname = \"x\"\n[[model]]\ndir = \"/m/b\"\n");
  const auto by_flag =
      resolve_options({.file = file.path(), .environment = {}, .flags = {{"--model", "/m/c"}}});
  REQUIRE(by_flag.models.size() == 1);
  CHECK(by_flag.models[0].dir == "/m/c");
  CHECK(by_flag.models[0].name.empty());
  const auto by_variable =
      resolve_options({.file = file.path(), .environment = {{"TROUPE_MODEL_DIR", "/m/d"}}, .flags = {}});
  REQUIRE(by_variable.models.size() == 1);
  CHECK(by_variable.models[0].dir == "/m/d");
  const auto renamed =
      resolve_options({.file = file.path(), .environment = {}, .flags = {{"--model-name", "y"}}});
  REQUIRE(renamed.models.size() == 2);
  CHECK(renamed.models[0].name == "y");
}

TEST_CASE("options: what is wrong with a [[model]] is named with the file and its number") {
  const auto refused = [](const std::string& text) {
    const TemporaryFile file(text);
    const auto what = refusal({.file = file.path(), .environment = {}, .flags = {}});
    CHECK(contains(what, file.path().string()));
    return what;
  };
  const std::string good = "[[model]]\ndir = \"/m/a\"\n";
  CHECK(contains(refused(good + "[[model]]\ndir = \"/m/b\"\nnam = \"x\"\n"),
                 "[[model]] 2: unknown option 'nam'; did you mean 'name'?"));
  CHECK(contains(refused(good + "[[model]]\nname = \"x\"\n"), "[[model]] 2: dir: expected the directory"));
  CHECK(contains(refused("[[model]]\ndir = \"/m/a\"\nmemory_share = 1.5\n"),
                 "[[model]] 1: memory_share: expected a number from 0 to 1, got '1.5'"));
  CHECK(contains(refused("[[model]]\ndir = \"/m/a\"\nname = \"a b\"\n"),
                 "[[model]] 1: name: expected 1 to 128"));
  CHECK(contains(refused("[[model]]\ndir = [\"/m/a\"]\n"), "[[model]] 1: dir: expected one value"));
  CHECK(contains(refused("[[model]]\ndir = true\n"), "[[model]] 1: dir: expected no boolean"));
  CHECK(contains(refused("[model]\ndir = \"/m/a\"\n" + good), ":3: "));
  CHECK(contains(refused(good + "[model]\ndir = \"/m/b\"\n"), ":3: "));
  CHECK(contains(refused("[model]\nmemory_share = 0.5\n"), "unknown option 'model.memory_share'"));
  CHECK(contains(refused("[[model]]\ndir = \"/m/a\"\nthreads = 1025\n"), "[[model]] 1: threads: expected"));
}

TEST_CASE("options: a [[model]] has threads of its own in processes only") {
  const TemporaryFile file("[[model]]\ndir = \"/m/a\"\nthreads = 3\n");
  const auto options =
      resolve_options({.file = file.path(), .environment = {}, .flags = {{"--worker-placement", "child"}}});
  CHECK(options.models.at(0).threads == 3);
  CHECK(contains(refusal({.file = file.path(), .environment = {}, .flags = {}}),
                 "[[model]]: threads: expected --worker-placement child"));
  CHECK(contains(refusal({.file = file.path(),
                          .environment = {},
                          .flags = {{"--worker-placement", "child"}, {"--device", "cuda"}}}),
                 "[[model]]: threads: expected --device cpu or auto, got 'cuda'"));
}

TEST_CASE("options: one model alone has a memory_share of --memory only") {
  const TemporaryFile file("[[model]]\ndir = \"/m/a\"\nmemory_share = 0.5\n");
  CHECK(contains(refusal({.file = file.path(), .environment = {}, .flags = {}}),
                 "[[model]]: memory_share: expected --memory"));
  CHECK_NOTHROW(resolve_options({.file = file.path(), .environment = {}, .flags = {{"--memory", "1GiB"}}}));
}

TEST_CASE("options: of what has changed, the reloadable is taken over and the rest is named") {
  Options before, after;
  after.log_level = "debug";
  after.trace_sample_ratio = 0.1;
  after.port = 9000;
  after.models = {{.dir = "a"}, {.dir = "b"}};
  const OptionChanges changes = changes_between(before, after);
  CHECK(changes.reloadable == std::vector<std::string>{"--log-level", "--trace-sample-ratio"});
  CHECK(changes.need_restart == std::vector<std::string>{"--model", "--port"});

  const Options in_force = with_reloaded(before, after);
  CHECK(in_force.log_level == "debug");
  CHECK(in_force.trace_sample_ratio == 0.1);
  CHECK(in_force.port == before.port);
  CHECK(changes_between(in_force, after).reloadable.empty());
  CHECK(changes_between(in_force, after).need_restart == changes.need_restart);
}

TEST_CASE("options: a second model that changes is a change of the models") {
  Options before, after;
  before.models = {{.dir = "a"}, {.dir = "b"}};
  after.models = {{.dir = "a"}, {.dir = "b", .memory_share = 0.5}};
  CHECK(changes_between(before, before).need_restart.empty());
  CHECK(changes_between(before, after).need_restart == std::vector<std::string>{"--model"});
}

TEST_CASE("options: each section is in one piece, and no setting of the engine core is left out") {
  std::set<std::string_view> sections, keys;
  std::string_view section;
  for (const auto& entry : option_table()) {
    const std::string_view key = entry.key;
    keys.insert(key);
    if (const auto next = key.substr(0, key.find('.')); next != section)
      CHECK(sections.insert(section = next).second);
  }
  for (const auto& setting : serving_table())
    if (!setting.flag.empty()) CHECK(keys.contains(setting.key));
}

TEST_CASE("options: each reloadable one is in the table") {
  const auto table = option_table();
  CHECK(std::count_if(table.begin(), table.end(), is_reloadable) == 9);
}

}  // namespace options_test
