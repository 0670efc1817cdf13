// SPDX-License-Identifier: Apache-2.0
#include "app/state.hpp"

#include <doctest/doctest.h>

#include <stdlib.h>

#include <fstream>
#include <string>

#include "app/loading/backend_choice.hpp"
#include "app/options/configuration_error.hpp"
#include "store/conversation_store.hpp"
#include "telemetry/log.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace troupe;
using troupe::test::TemporaryDirectory;

namespace {

Options with_directory(const std::string& path) {
  configure_logging(LogLevel::kOff, LogFormat::kText);
  Options options;
  options.store_directory = path;
  return options;
}

std::string refusal(const std::string& path) {
  try {
    open_state_directory(with_directory(path));
  } catch (const ConfigurationError& error) {
    return error.what();
  } catch (const std::runtime_error& error) {
    return std::string("not the configuration: ") + error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("state: a directory that was named and can't be used is refused with the reason") {
  const TemporaryDirectory root;
  root.write("file", "x");
  CHECK(refusal("/proc/nope").find("--store-directory /proc/nope: ") == 0);
  CHECK(refusal((root.path() / "file").string()).find("must be a directory") != std::string::npos);
  const auto used = open_state_directory(with_directory(root.path().string()));
  CHECK(used);
  const auto in_use = refusal(root.path().string());
  CHECK(in_use.find("not the configuration: --store-directory ") == 0);
  CHECK(in_use.find("another troupe is using it") != std::string::npos);
}

TEST_CASE(
    "state: conversations of a later troupe are refused where they were named, and left alone in any case") {
  const TemporaryDirectory root;
  const auto path = root.path() / "troupe";
  { const ConversationStore store(StateDirectory(path), {}); }
  SqliteDatabase(path / kConversationFileName).execute("PRAGMA user_version=99");
  CHECK(refusal(path.string()).find("later troupe") != std::string::npos);
  ::setenv("XDG_STATE_HOME", root.path().c_str(), 1);
  CHECK_FALSE(open_state_directory(with_directory("default")));
  ::unsetenv("XDG_STATE_HOME");
  CHECK(std::filesystem::exists(path / kConversationFileName));
  CHECK_FALSE(std::filesystem::exists(path / "conversations.sqlite.aside-1"));
}

TEST_CASE("state: packed weights are kept in the directory that was opened, or nowhere") {
  const TemporaryDirectory root;
  std::filesystem::create_directory(root.path() / "real");
  std::filesystem::create_directory_symlink(root.path(), root.path() / "link");
  const auto named = with_directory((root.path() / "link" / "real").string());
  const auto opened = open_state_directory(named);
  REQUIRE(opened);
  const auto real = std::filesystem::canonical(root.path() / "real").string();
  CHECK(backend_settings(with_opened_directory(named, opened.get())).kept_weights == real + "/weights");
  CHECK(backend_settings(with_opened_directory(named, nullptr)).kept_weights.empty());
}

TEST_CASE("state: without a name the server does without what it can't have") {
  const TemporaryDirectory root;
  root.write("troupe", "x");
  ::setenv("XDG_STATE_HOME", root.path().c_str(), 1);
  CHECK_FALSE(open_state_directory(with_directory("default")));
  ::unsetenv("XDG_STATE_HOME");
  CHECK_FALSE(open_state_directory(with_directory("none")));
}
