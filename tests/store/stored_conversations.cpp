// SPDX-License-Identifier: Apache-2.0
#include "tests/store/stored_conversations.hpp"

#include <fstream>
#include <iterator>
#include <stdexcept>

namespace troupe::test {

StoredResponse some_response(const std::string& id, const std::string& previous,
                             std::vector<std::int32_t> tokens, bool extends_previous) {
  StoredResponse response;
  response.id = id;
  response.previous = previous;
  response.created = 500'000;
  response.expires = 100'000'000;
  response.model = "demo";
  response.instructions = "be kind";
  response.settings = R"("temperature":0)";
  response.input = {{"user", "question " + id}};
  response.output = "answer " + id;
  response.prompt_tokens = 3;
  response.completion_tokens = 4;
  response.vocabulary = 0xfedcba9876543210;
  response.extends_previous = extends_previous;
  response.tokens = std::move(tokens);
  return response;
}

std::int64_t num_rows(const StateDirectory& directory, std::optional<ConversationStore>& store) {
  store.reset();
  std::int64_t number = 0;
  {
    const SqliteDatabase database(directory.path() / kConversationFileName);
    SqliteStatement statement(database, "SELECT count(*) FROM response");
    if (statement.step()) number = statement.integer(0);
  }
  store.emplace(directory, ConversationStoreOptions{});
  return number;
}

std::vector<std::pair<StoredResponse, bool>> save_with_faults(const StateDirectory& directory,
                                                              DiskFaults faults, bool& was_hit) {
  std::vector<std::pair<StoredResponse, bool>> outcome;
  set_disk_faults(faults);
  try {
    ConversationStore store(directory, {.file = {.vfs = failing_vfs()}});
    for (int i = 0; i < 3; ++i) {
      const auto response =
          some_response("r" + std::to_string(i), "before", std::vector<std::int32_t>(2000, i), true);
      outcome.emplace_back(response, !store.save(response).has_value());
    }
  } catch (const std::runtime_error&) {
    // It could not be opened: nothing was acknowledged.
  }
  was_hit = disk_faults().was_hit;
  set_disk_faults({});
  return outcome;
}

}  // namespace troupe::test
