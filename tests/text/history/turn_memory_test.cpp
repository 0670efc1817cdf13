// SPDX-License-Identifier: Apache-2.0
#include "text/history/turn_memory.hpp"

#include <doctest/doctest.h>

#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace troupe {
namespace {

RememberedText part(std::uint64_t key, std::size_t num_bytes = 100) {
  return {.key = key, .text = std::string(num_bytes, 'x'), .tokens = std::vector<TokenId>(num_bytes / 4)};
}

std::shared_ptr<const RememberedText> find(TurnMemory& memory, const std::string& tenant, std::uint64_t key) {
  return memory.find(tenant, std::vector<std::uint64_t>{key});
}

void remember(TurnMemory& memory, const std::string& tenant, RememberedText content,
              const std::shared_ptr<const RememberedText>& before = nullptr) {
  std::vector<RememberedText> parts;
  parts.push_back(std::move(content));
  memory.remember(tenant, before, std::move(parts));
}

}  // namespace

TEST_CASE("turn memory: the last known key is found, with all that is before it") {
  TurnMemory memory({});
  memory.remember("a", nullptr, {part(1), part(2), part(3)});
  const auto found = memory.find("a", std::vector<std::uint64_t>{1, 2, 7});
  REQUIRE(found);
  CHECK(found->key == 2);
  REQUIRE(found->before);
  CHECK(found->before->key == 1);
  CHECK_FALSE(found->before->before);
  CHECK(find(memory, "a", 3)->before == found);
}

TEST_CASE("turn memory: a tenant finds nothing of another's") {
  TurnMemory memory({});
  remember(memory, "a", part(1));
  CHECK(find(memory, "a", 1));
  CHECK_FALSE(find(memory, "b", 1));
  CHECK_FALSE(find(memory, "", 1));
}

TEST_CASE("turn memory: the same part is kept once, another one of its key takes its place") {
  TurnMemory memory({});
  memory.remember("a", nullptr, {part(1), part(2)});
  const auto size = memory.size();
  memory.remember("a", nullptr, {part(1), part(2)});
  CHECK(memory.size().num_parts == size.num_parts);
  CHECK(memory.size().num_bytes == size.num_bytes);
  auto other = part(1);
  other.text = "another day";
  remember(memory, "a", std::move(other));
  CHECK(find(memory, "a", 1)->text == "another day");
  CHECK_FALSE(find(memory, "a", 2));  // it continued the first
  CHECK(memory.size().num_parts == 1);
}

TEST_CASE("turn memory: what continues a forgotten part is not remembered") {
  TurnMemory memory({});
  remember(memory, "a", part(1));
  const auto before = find(memory, "a", 1);
  auto other = part(1);
  other.text = "another day";
  remember(memory, "a", std::move(other));
  remember(memory, "a", part(2), before);
  CHECK_FALSE(find(memory, "a", 2));
}

TEST_CASE("turn memory: a shortened answer takes the fuller one's place, anything else does not") {
  const auto with_answer = [](std::string answer) {
    auto content = part(1);
    content.answer = std::move(answer);
    return content;
  };
  for (const std::string answer : {"an ans", "another answer", ""}) {
    CAPTURE(answer);
    TurnMemory memory({});
    remember(memory, "a", with_answer("an answer"));
    const auto fuller = find(memory, "a", 1);
    remember(memory, "a", part(2), fuller);
    remember(memory, "a", part(3), std::make_shared<const RememberedText>(with_answer(answer)));
    const bool is_shortened = answer == "an ans" || answer.empty();
    CHECK((find(memory, "a", 3) != nullptr) == is_shortened);
    CHECK((find(memory, "a", 2) != nullptr) == !is_shortened);  // continued the fuller one
    CHECK(find(memory, "a", 1)->answer == (is_shortened ? answer : "an answer"));
  }
}

TEST_CASE("turn memory: what was not used for longest goes, an answer before its question") {
  TurnMemory memory({.max_parts = 4});
  memory.remember("a", nullptr, {part(1), part(2)});
  memory.remember("a", nullptr, {part(3), part(4)});
  CHECK(find(memory, "a", 2));
  remember(memory, "a", part(5));
  CHECK_FALSE(find(memory, "a", 4));
  CHECK(find(memory, "a", 3));
  CHECK(find(memory, "a", 2));
  CHECK(memory.size().num_parts == 4);
}

TEST_CASE("turn memory: the tenant that holds most makes room") {
  TurnMemory memory({.max_parts = 6});
  remember(memory, "small", part(1));
  for (std::uint64_t key = 1; key <= 20; ++key) remember(memory, "large", part(key));
  CHECK(find(memory, "small", 1));
  CHECK(memory.size().num_parts == 6);
}

TEST_CASE("turn memory: one part gets a quarter of the bytes at most, and none where there are none") {
  TurnMemory memory({.max_bytes = 40'000});
  remember(memory, "a", part(1, 20'000));
  CHECK_FALSE(find(memory, "a", 1));
  remember(memory, "a", part(2, 2'000));
  CHECK(find(memory, "a", 2));
  TurnMemory off({.max_bytes = 0});
  remember(off, "a", part(1));
  CHECK_FALSE(off.is_on());
  CHECK_FALSE(find(off, "a", 1));
  CHECK(off.size().num_bytes == 0);
}

TEST_CASE("turn memory: under random use the limits hold and every part's beginning is there") {
  std::mt19937 random(14);
  TurnMemory memory({.max_bytes = 60'000, .max_parts = 50});
  for (int step = 0; step < 20'000; ++step) {
    const std::string tenant(1, static_cast<char>('a' + random() % 3));
    const std::uint64_t key = random() % 200;
    const auto before = random() % 4 == 0 ? nullptr : find(memory, tenant, random() % 200);
    auto content = part(key, 16 + random() % 2000);
    content.text[0] = static_cast<char>('a' + random() % 2);
    remember(memory, tenant, std::move(content), before);
    const auto size = memory.size();
    REQUIRE(size.num_bytes <= 60'000);
    REQUIRE(size.num_parts <= 50);
    const auto found = find(memory, tenant, random() % 200);
    for (auto above = found; above; above = above->before) REQUIRE(find(memory, tenant, above->key) == above);
  }
  std::size_t num_parts = 0, num_bytes = 0;
  for (const char* tenant : {"a", "b", "c"})
    for (std::uint64_t key = 0; key < 200; ++key)
      if (const auto found = find(memory, tenant, key)) {
        ++num_parts;
        num_bytes += found->num_bytes();
      }
  CHECK(num_parts == memory.size().num_parts);
  CHECK(num_bytes == memory.size().num_bytes);
}

namespace {

// As a prompt has them: each begins where the one before it ends.
std::vector<RememberedText> chat(std::uint64_t first_key, std::size_t num_parts, std::size_t begin = 0) {
  std::vector<RememberedText> parts;
  for (std::size_t i = 0; i < num_parts; ++i) {
    parts.push_back(part(first_key + i));
    parts.back().begin = begin + i * 100;
    for (TokenId& token : parts.back().tokens) token = static_cast<TokenId>(first_key + i);
  }
  return parts;
}

// What a file holds after these changes.
using Kept = std::map<std::uint64_t, TurnChange>;
void keep_changes(Kept& kept, const std::vector<TurnChange>& changes) {
  for (const TurnChange& change : changes) {
    if (change.content) {
      REQUIRE((change.before == 0 || kept.contains(change.before)));
      kept[change.number] = change;
    } else {
      kept.erase(change.number);
    }
  }
}

void keep(Kept& kept, TurnMemory& memory) { keep_changes(kept, memory.take_changes()); }

std::vector<TurnChange> listed(const Kept& kept) {
  std::vector<TurnChange> parts;
  for (const auto& [number, part] : kept) parts.push_back(part);
  return parts;
}

std::vector<TokenId> tokens_of(const std::shared_ptr<const RememberedText>& last) {
  if (!last) return {};
  auto tokens = tokens_of(last->before);
  tokens.insert(tokens.end(), last->tokens.begin(), last->tokens.end());
  return tokens;
}

}  // namespace

TEST_CASE("turn memory: another process restores what the changes say, and goes on") {
  Kept kept;
  TurnMemory memory({});
  memory.tell_changes();
  memory.remember("a", nullptr, chat(1, 3));
  memory.remember("a", find(memory, "a", 2), chat(10, 2, 200));
  memory.remember("b", nullptr, chat(1, 1));
  memory.remember("b", nullptr, chat(1, 1));  // known: no change
  keep(kept, memory);
  CHECK(kept.size() == 6);
  CHECK(memory.take_changes().empty());

  TurnMemory later({});
  later.tell_changes();
  later.restore(listed(kept));
  CHECK(later.take_changes().empty());
  CHECK(later.size().num_parts == 6);
  CHECK(tokens_of(find(later, "a", 11)) == tokens_of(find(memory, "a", 11)));
  CHECK(find(later, "a", 3)->before == find(later, "a", 10)->before);
  later.remember("a", find(later, "a", 11), chat(20, 1, 400));
  keep(kept, later);
  CHECK(kept.rbegin()->first > 6);
  CHECK(kept.rbegin()->second.before == 5);
}

TEST_CASE("turn memory: numbers begin behind those that an earlier process took") {
  Kept kept;
  TurnMemory memory({});
  memory.tell_changes();
  memory.restore({}, 7);
  memory.remember("a", nullptr, chat(1, 3));
  keep(kept, memory);
  CHECK(kept.begin()->first == 8);
}

TEST_CASE(
    "turn memory: of restored parts the oldest chat goes first, and what is no part of a chat at once") {
  Kept kept;
  TurnMemory memory({});
  memory.tell_changes();
  memory.remember("a", nullptr, chat(1, 2));
  memory.remember("a", nullptr, chat(11, 2));
  memory.remember("a", find(memory, "a", 2), chat(3, 1, 200));  // the first chat is used again
  keep(kept, memory);
  auto parts = listed(kept);
  auto stray = part(50);
  stray.begin = 7;
  parts.push_back({.number = 90, .tenant = "a", .content = std::make_shared<RememberedText>(stray)});
  parts.push_back(
      {.number = 91, .before = 5, .tenant = "a", .content = std::make_shared<RememberedText>(stray)});
  parts.push_back(
      {.number = 92, .before = 70, .tenant = "a", .content = std::make_shared<RememberedText>(stray)});
  stray.begin = 100;
  parts.push_back(
      {.number = 93, .before = 1, .tenant = "b", .content = std::make_shared<RememberedText>(stray)});
  TurnMemory later({.max_parts = 4});
  later.tell_changes();
  later.restore(parts);
  keep(kept, later);
  CHECK(kept.size() == 4);
  CHECK(find(later, "a", 3));
  CHECK(find(later, "a", 11));
  CHECK_FALSE(find(later, "a", 12));
  CHECK_FALSE(find(later, "b", 50));
}

TEST_CASE("turn memory: the tokens that go take their parts along, and what continues them") {
  TurnMemory memory({});
  memory.remember("a", nullptr, chat(1, 3));
  memory.remember("a", find(memory, "a", 1), chat(10, 1, 100));
  memory.remember("b", nullptr, chat(1, 3));
  const auto tokens = tokens_of(find(memory, "a", 2));
  memory.forget("a", tokens, tokens.size());
  CHECK(find(memory, "a", 3));
  memory.forget("a", tokens, 30);  // 25 of them are the first part's
  CHECK_FALSE(find(memory, "a", 2));
  CHECK_FALSE(find(memory, "a", 3));
  CHECK(find(memory, "a", 1));
  CHECK(find(memory, "a", 10));
  CHECK(find(memory, "b", 3));
  memory.forget("a", tokens, 0);
  CHECK_FALSE(find(memory, "a", 10));
  CHECK(memory.size().num_parts == 3);
}

TEST_CASE("turn memory: changes that nothing takes are no more than the parts that are and were there") {
  Kept kept;
  TurnMemory memory({.max_parts = 5});
  memory.tell_changes();
  memory.remember("a", nullptr, chat(1, 4));
  keep(kept, memory);
  CHECK(kept.size() == 4);
  for (std::uint64_t key = 10; key < 1000; key += 2) memory.remember("a", nullptr, chat(key, 2));
  const auto changes = memory.take_changes();
  CHECK(changes.size() == 4 + 5);
  keep_changes(kept, changes);
  TurnMemory later({});
  later.restore(listed(kept));
  CHECK(later.size().num_parts == 5);
  CHECK(find(later, "a", 999));
}

TEST_CASE("turn memory: under random use a file of its changes restores it") {
  std::mt19937 random(15);
  Kept kept;
  TurnMemory memory({.max_bytes = 60'000, .max_parts = 50});
  memory.tell_changes();
  for (int step = 0; step < 5'000; ++step) {
    const std::string tenant(1, static_cast<char>('a' + random() % 3));
    const auto before = random() % 4 == 0 ? nullptr : find(memory, tenant, random() % 60);
    memory.remember(tenant, before, chat(random() % 60, 1 + random() % 3, before ? before->end() : 0));
    if (random() % 50 == 0)
      memory.forget(tenant, tokens_of(find(memory, tenant, random() % 60)), random() % 80);
    if (random() % 50 == 0) memory.forget(std::vector<std::uint64_t>{kept.empty() ? 1 : kept.begin()->first});
    if (random() % 4 == 0) continue;  // taken with the next ones
    keep(kept, memory);
    REQUIRE(kept.size() == memory.size().num_parts);
    if (step % 100 != 0) continue;
    TurnMemory later({.max_bytes = 60'000, .max_parts = 50});
    later.restore(listed(kept));
    REQUIRE(later.size().num_parts == memory.size().num_parts);
    for (const char* name : {"a", "b", "c"})
      for (std::uint64_t key = 0; key < 63; ++key)
        REQUIRE(tokens_of(find(later, name, key)) == tokens_of(find(memory, name, key)));
  }
}

}  // namespace troupe
