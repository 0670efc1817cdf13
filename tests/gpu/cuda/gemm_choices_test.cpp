// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/gemm/gemm_choices.hpp"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "tests/support/file_text.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace troupe;
using namespace troupe::cuda;

namespace {

const GemmDevice kDevice{.name = "NVIDIA H200",
                         .compute_capability = 90,
                         .num_multiprocessors = 132,
                         .cublas_version = 130100,
                         .workspace_bytes = 32 << 20};

GemmChoices some_choices() {
  GemmChoices choices;
  choices[{.num_tokens = 64, .num_outputs = 6144, .depth = 4096}] = {
      .algorithm = {0x1234, ~std::uint64_t{0}, 0, 7, 0xABCDEF0123456789, 1, 2, 3},
      .workspace_bytes = 1 << 20,
      .microseconds = 17.25};
  choices[{.num_tokens = 2,
           .num_outputs = 384,
           .depth = 384,
           .type = DataType::kF32,
           .c_type = DataType::kF32,
           .is_exact = true}] = {.microseconds = 2.5};
  choices[{.num_tokens = 1,
           .num_outputs = 6144,
           .depth = 4096,
           .type = DataType::kF16,
           .c_type = DataType::kF32,
           .has_bias = true,
           .adds = true,
           .activation = GemmActivation::kGelu}] = {.kernel = GemmKernel::kFewTokens,
                                                    .microseconds = 1.0 / 3.0};
  return choices;
}

class ChoicesFile {
 public:
  ChoicesFile() : descriptor_(::open(folder_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {}
  ~ChoicesFile() { ::close(descriptor_); }
  ChoicesFile(const ChoicesFile&) = delete;
  ChoicesFile& operator=(const ChoicesFile&) = delete;

  int directory() const { return descriptor_; }
  std::filesystem::path path() const { return folder_.path() / kGemmChoicesFile; }
  std::string text() const { return test::file_text(path()); }
  void set_text(const std::string& text) const { std::ofstream(path(), std::ios::binary) << text; }
  void replace(const std::string& what, const std::string& by) const {
    std::string changed = text();
    const auto found = changed.find(what);
    REQUIRE(found != std::string::npos);
    set_text(changed.replace(found, what.size(), by));
  }
  std::string problem(const GemmDevice& device = kDevice) const {
    try {
      return read_gemm_choices(descriptor_, device) ? "" : "nothing there";
    } catch (const std::runtime_error& error) {
      return error.what();
    }
  }

 private:
  test::TemporaryDirectory folder_;
  int descriptor_;
};

const std::string kNoList = "expected a list of products, each once, and their kernels";
const std::string kWrongChecksum = "expected choices that match their checksum";

}  // namespace

TEST_CASE("product choices: what is written is read again") {
  ChoicesFile file;
  CHECK(file.problem() == "nothing there");
  write_gemm_choices(file.directory(), kDevice, some_choices());
  CHECK(read_gemm_choices(file.directory(), kDevice) == some_choices());
  write_gemm_choices(file.directory(), kDevice, {});
  CHECK(read_gemm_choices(file.directory(), kDevice) == GemmChoices{});
  CHECK(std::distance(std::filesystem::directory_iterator(file.path().parent_path()), {}) == 1);
}

TEST_CASE("product choices: another device's or library's are not taken") {
  ChoicesFile file;
  write_gemm_choices(file.directory(), kDevice, some_choices());
  const auto is_taken = [&](auto change) {
    GemmDevice device = kDevice;
    change(device);
    return file.problem(device).empty();
  };
  CHECK(is_taken([](GemmDevice&) {}));
  CHECK_FALSE(is_taken([](GemmDevice& device) { device.name = "NVIDIA H100"; }));
  CHECK_FALSE(is_taken([](GemmDevice& device) { device.compute_capability = 80; }));
  CHECK_FALSE(is_taken([](GemmDevice& device) { device.num_multiprocessors = 60; }));
  CHECK_FALSE(is_taken([](GemmDevice& device) { device.cublas_version = 130003; }));
  CHECK_FALSE(is_taken([](GemmDevice& device) { device.workspace_bytes = 1 << 20; }));
}

TEST_CASE("product choices: a file holds those of several devices and versions") {
  ChoicesFile file;
  GemmDevice other = kDevice;
  other.cublas_version = 130200;
  GemmChoices of_other = some_choices();
  of_other.erase(of_other.begin());
  write_gemm_choices(file.directory(), kDevice, some_choices());
  CHECK(file.problem(other) == "nothing there");
  write_gemm_choices(file.directory(), other, of_other);
  CHECK(read_gemm_choices(file.directory(), kDevice) == some_choices());
  CHECK(read_gemm_choices(file.directory(), other) == of_other);
  write_gemm_choices(file.directory(), kDevice, {});  // in the old ones' place
  CHECK(read_gemm_choices(file.directory(), kDevice) == GemmChoices{});
  CHECK(read_gemm_choices(file.directory(), other) == of_other);
  // Damage of one is not the other's.
  file.replace("abcdef0123456789", "abcdef0123456788");
  CHECK(file.problem(other) == kWrongChecksum);
  CHECK(file.problem() == "");
}

TEST_CASE("product choices: of several lists of a device the first one that has a product counts") {
  ChoicesFile file;
  GemmChoices newer = some_choices();
  newer.erase(newer.begin());
  newer.begin()->second.microseconds = 9.5;
  write_gemm_choices(file.directory(), kDevice, some_choices());
  const auto old = nlohmann::json::parse(file.text());
  write_gemm_choices(file.directory(), kDevice, newer);
  auto both = nlohmann::json::parse(file.text());
  both["devices"].push_back(old.at("devices").at(0));
  file.set_text(both.dump());
  GemmChoices expected = newer;
  for (const auto& choice : some_choices()) expected.insert(choice);
  CHECK(expected.size() == newer.size() + 1);
  CHECK(read_gemm_choices(file.directory(), kDevice) == expected);
  write_gemm_choices(file.directory(), kDevice, newer);  // in the place of both
  CHECK(read_gemm_choices(file.directory(), kDevice) == newer);
}

TEST_CASE("product choices: of too many devices the oldest go") {
  ChoicesFile file;
  GemmDevice device = kDevice;
  for (std::size_t version = 0; version < 20; ++version) {
    device.cublas_version = version;
    write_gemm_choices(file.directory(), device, some_choices());
  }
  for (std::size_t version = 0; version < 20; ++version) {
    device.cublas_version = version;
    CHECK(file.problem(device) == (version < 4 ? "nothing there" : ""));
  }
}

TEST_CASE("product choices: a file that can't be read is replaced") {
  ChoicesFile file;
  for (const std::string& text : {std::string("{\"format\": "), std::string((4 << 20) + 1, ' '),
                                  std::string("{\"format\": 3, \"devices\": [1, {}, {\"device\": 2}]}")}) {
    file.set_text(text);
    write_gemm_choices(file.directory(), kDevice, some_choices());
    CHECK(read_gemm_choices(file.directory(), kDevice) == some_choices());
  }
}

TEST_CASE("product choices: what comes with the programs is in order") {
  const std::filesystem::path folder = TROUPE_SOURCE_DIR "/configs/gpus";
  const auto file = nlohmann::json::parse(test::file_text(folder / kGemmChoicesFile));
  CHECK(file.at("format") == 3);
  const int directory = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  for (const auto& part : file.at("devices")) {
    const auto& device = part.at("device");
    CHECK(read_gemm_choices(directory, {.name = device.at("name"),
                                        .compute_capability = device.at("compute_capability"),
                                        .num_multiprocessors = device.at("num_multiprocessors"),
                                        .cublas_version = device.at("cublas_version"),
                                        .workspace_bytes = device.at("workspace_bytes")}));
  }
  ::close(directory);
}

TEST_CASE("product choices: a file cut anywhere is none") {
  ChoicesFile file;
  write_gemm_choices(file.directory(), kDevice, some_choices());
  const std::string whole = file.text();
  for (std::size_t length = 0; length + 1 < whole.size(); length += 7) {
    file.set_text(whole.substr(0, length));
    CHECK(file.problem() == "expected JSON of format 3");
  }
}

TEST_CASE("product choices: damage is noticed, one digit of an algorithm too") {
  ChoicesFile file;
  const auto problem_after = [&](const std::string& what, const std::string& by) {
    write_gemm_choices(file.directory(), kDevice, some_choices());
    file.replace(what, by);
    return file.problem();
  };
  CHECK(problem_after("abcdef0123456789", "abcdef0123456788") == kWrongChecksum);
  CHECK(problem_after("17.25", "16.25") == kWrongChecksum);
  CHECK(problem_after("\"checksum\": \"", "\"checksum\": \"0") == kWrongChecksum);
  CHECK(problem_after("abcdef0123456789", "abcdef012345678") == kNoList);
  CHECK(problem_after("abcdef0123456789", "abcdef012345678g") == kNoList);
  CHECK(problem_after("1048576", "99999999") == kNoList);  // more than the workspace
  CHECK(problem_after("17.25", "-1") == kNoList);
  CHECK(problem_after("\"few-tokens\"", "\"many-tokens\"") == kNoList);
  CHECK(problem_after("\"bf16\"", "\"i32\"") == kNoList);
  CHECK(problem_after("\"tokens\": 64", "\"tokens\": 63") == kNoList);  // no bin
  CHECK(problem_after("\"tokens\": 64", "\"tokens\": 68719476736") == kNoList);
  CHECK(problem_after("\"format\": 3", "\"format\": 2") == "expected JSON of format 3");
}

TEST_CASE("product choices: whatever else lies there is no choice either") {
  ChoicesFile file;
  for (const std::string text : {"", "[]", "null", "{\"format\": 3}", "\xFF\xFE"}) {
    file.set_text(text);
    CHECK_FALSE(file.problem().empty());
  }
  file.set_text(std::string((4 << 20) + 1, ' '));
  CHECK(file.problem() == "expected at most 4194304 bytes, got more");
  file.set_text("{\"format\": 3, \"choices\": " + std::string(1 << 20, '['));
  CHECK(file.problem() == "expected JSON of format 3");
  std::filesystem::remove(file.path());
  std::filesystem::create_directory(file.path());
  CHECK(file.problem() == "expected a regular file");
  CHECK_THROWS_AS(write_gemm_choices(file.directory(), kDevice, {}), std::runtime_error);
}
