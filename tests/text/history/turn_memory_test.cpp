// SPDX-License-Identifier: Apache-2.0
#include "text/history/turn_memory.hpp"

#include <doctest/doctest.h>

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

}  // namespace troupe
