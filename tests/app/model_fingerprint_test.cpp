// SPDX-License-Identifier: Apache-2.0
#include "app/loading/model_fingerprint.hpp"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "telemetry/log.hpp"
#include "tests/support/file_text.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace troupe;
namespace fs = std::filesystem;

namespace {

// A model's two files, and a directory that keeps their digests.
class Model {
 public:
  Model() : descriptor_(::open(kept_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    configure_logging(LogLevel::kOff, LogFormat::kText);
    files_.write("config.json", "{}");
    files_.write("model.safetensors", "some weights");
  }
  ~Model() { ::close(descriptor_); }

  std::array<std::uint64_t, 2> fingerprint() const {
    return model_fingerprint(files_.path(), "cpu, bf16", descriptor_);
  }
  std::array<std::uint64_t, 2> fingerprint_of_contents() const {
    return model_fingerprint(files_.path(), "cpu, bf16");
  }
  std::uint64_t of_states(const std::string& computation = "cpu, bf16") const {
    return state_fingerprint(files_.path(), computation, descriptor_);
  }
  fs::path weights() const { return files_.path() / "model.safetensors"; }
  fs::path digests() const { return kept_.path() / "model-digests"; }

 private:
  TemporaryDirectory files_, kept_;
  int descriptor_;
};

}  // namespace

TEST_CASE("model fingerprint: kept digests give what the contents give") {
  const Model model;
  const auto of_contents = model.fingerprint_of_contents();
  CHECK(model.fingerprint() == of_contents);
  CHECK(test::file_text(model.digests()).find("model.safetensors") != std::string::npos);
  CHECK(model.fingerprint() == of_contents);
}

TEST_CASE("model fingerprint: contents are not read again while a file is as it was") {
  const Model model;
  model.fingerprint();
  std::string kept = test::file_text(model.digests());
  const auto digit = kept.find('-') - 1;
  kept[digit] = kept[digit] == '0' ? '1' : '0';
  std::ofstream(model.digests()) << kept;
  CHECK(model.fingerprint() != model.fingerprint_of_contents());
}

TEST_CASE("model fingerprint: other contents of the same length and time are another model") {
  const Model model;
  const auto before = model.fingerprint();
  const auto time = fs::last_write_time(model.weights());
  std::ofstream(model.weights()) << "more weights";
  fs::last_write_time(model.weights(), time);
  CHECK(model.fingerprint() != before);
  CHECK(model.fingerprint() == model.fingerprint_of_contents());
}

TEST_CASE("model fingerprint: a damaged file of digests is made anew") {
  const Model model;
  const auto right = model.fingerprint();
  std::ofstream(model.digests()) << std::string(2 << 20, 'x');
  CHECK(model.fingerprint() == right);
  CHECK(test::file_text(model.digests()).size() < 4096);
}

TEST_CASE("state fingerprint: it is that of the files and how they are computed, and not of this program") {
  const Model model, same;
  const auto before = model.of_states();
  CHECK(model.of_states() == before);
  CHECK(same.of_states() == before);  // in another directory
  CHECK(model.of_states("cpu, f32") != before);
  CHECK(before != model.fingerprint()[0]);
  CHECK(before != model.fingerprint()[1]);
  std::ofstream(model.weights()) << "more weights";
  CHECK(model.of_states() != before);
}

TEST_CASE("state fingerprint: of a model whose files can't be read there is none") {
  const Model model;
  fs::remove(model.weights());
  fs::create_symlink("nowhere.safetensors", model.weights());
  CHECK_THROWS(model.of_states());
}
