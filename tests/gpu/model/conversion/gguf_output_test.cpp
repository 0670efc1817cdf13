// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/conversion/gguf_output.hpp"

#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "gpu/model/gguf_file.hpp"
#include "tests/support/file_text.hpp"
#include "tests/support/temporary_directory.hpp"

namespace troupe {
namespace {

using test::TemporaryDirectory;

GgufKeys some_keys() {
  GgufKeys keys;
  keys.add_text("general.architecture", "llama");
  keys.add_count("llama.block_count", 7);
  keys.add_number("general.sampling.temp", 0.5);
  keys.add_flag("tokenizer.ggml.add_bos_token", true);
  const std::vector<std::string> texts = {"a", "", "\u2581b"};
  keys.add_texts("tokenizer.ggml.tokens", texts);
  const std::vector<double> numbers = {0.0, -1.5};
  keys.add_numbers("tokenizer.ggml.scores", numbers);
  const std::vector<std::int64_t> integers = {1, -3};
  keys.add_integers("some.integers", integers);
  return keys;
}

std::vector<GgufOutputTensor> some_tensors() {
  return {{"first.weight", {32, 3}, BlockFormat::kQ8_0}, {"second.weight", {5}, BlockFormat::kF32}};
}

std::size_t num_files(const std::filesystem::path& directory) {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator(directory), std::filesystem::directory_iterator()));
}

std::vector<std::byte> bytes_of(std::size_t count, unsigned char first) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < count; ++i) bytes.push_back(static_cast<std::byte>(first + i % 64));
  return bytes;
}

template <class Action>
std::string error_of(Action action) {
  try {
    action();
    return "";
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

// Files of this process may not grow beyond so many bytes, as on a disk that is full.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t size) : before_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &limit_);
    rlimit less = limit_;
    less.rlim_cur = size;
    ::setrlimit(RLIMIT_FSIZE, &less);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &limit_);
    std::signal(SIGXFSZ, before_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit limit_{};
  void (*before_)(int);
};

}  // namespace

TEST_CASE("gguf output: keys and tensors are read as they were written") {
  const TemporaryDirectory place;
  const auto path = place.path() / "m.gguf";
  const auto first = bytes_of(102, 1), second = bytes_of(20, 100);
  {
    GgufOutput output(path, some_keys(), some_tensors());
    output.write(1, 0, second);
    output.write(0, 34, std::span(first).subspan(34));  // in any order
    output.write(0, 0, std::span(first).first(34));
    CHECK(output.size_bytes() % 32 == 0);
    output.finish(false);
  }
  CHECK(num_files(place.path()) == 1);
  const GgufFile file(path);
  CHECK(file.version() == 3);
  CHECK(*file.find_text("general.architecture") == "llama");
  CHECK(file.find_unsigned("llama.block_count") == 7);
  CHECK(file.find_number("general.sampling.temp") == 0.5);
  CHECK(file.find_bool("tokenizer.ggml.add_bos_token") == true);
  CHECK(*file.find_array("tokenizer.ggml.tokens")->at(2).as_text() == "\u2581b");
  CHECK(*file.find_array("tokenizer.ggml.scores")->at(1).as_number() == -1.5);
  CHECK(std::get<std::int64_t>(file.find_array("some.integers")->at(1).value) == -3);
  const auto* tensor = file.find_tensor("first.weight");
  REQUIRE(tensor != nullptr);
  CHECK(tensor->entry.shape() == std::vector<std::uint64_t>{3, 32});
  CHECK(tensor->entry.type_name() == "Q8_0");
  CHECK(std::vector(tensor->bytes().begin(), tensor->bytes().end()) == first);
  const auto of_second = file.find_tensor("second.weight")->bytes();
  CHECK(std::vector(of_second.begin(), of_second.end()) == second);
}

TEST_CASE("gguf output: keys of another file are copied byte by byte") {
  const TemporaryDirectory place;
  const auto path = place.path() / "m.gguf", copy = place.path() / "copy.gguf";
  GgufOutput(path, some_keys(), some_tensors()).finish(false);
  const GgufFile file(path);
  GgufKeys keys;
  for (const GgufKey& key : file.keys()) keys.add_bytes(key.name, file.bytes_of(key));
  CHECK(keys.bytes() == some_keys().bytes());
  CHECK(keys.count() == some_keys().count());
}

TEST_CASE(
    "gguf output: what is given up leaves nothing, and another's file stays unless it is to be replaced") {
  const TemporaryDirectory place;
  const auto path = place.path() / "m.gguf";
  { const GgufOutput output(path, some_keys(), some_tensors()); }
  CHECK(num_files(place.path()) == 0);
  place.write("m.gguf", "mine");
  CHECK(error_of([&] { GgufOutput(path, some_keys(), some_tensors()).finish(false); }) ==
        path.string() + ": File exists");
  CHECK(test::file_text(path) == "mine");
  CHECK(num_files(place.path()) == 1);
  GgufOutput(path, some_keys(), some_tensors()).finish(true);
  CHECK(GgufFile(path).tensors().size() == 2);
}

TEST_CASE("gguf output: a disk that is full is told at once and leaves nothing") {
  const TemporaryDirectory place;
  const auto path = place.path() / "m.gguf";
  std::string error;
  {
    const FileSizeLimit limit(64);
    error = error_of([&] { const GgufOutput output(path, some_keys(), some_tensors()); });
  }
  CHECK(error == path.string() + ": File too large");
  CHECK(num_files(place.path()) == 0);
  CHECK(error_of([&] {
          const GgufOutput output(place.path() / "none" / "m.gguf", {}, {});
        }).ends_with(": No such file or directory"));
}

}  // namespace troupe
