// SPDX-License-Identifier: Apache-2.0
// Remembers which tokens the turns of chats really had, so that a chat which comes
// again with its whole history runs the very tokens that were run before. Bounded: the
// tenant that holds most gives up what it has not used for longest.
//
//   question 1 ─► answer 1 ─► question 2 ─► answer 2      each holds only what it adds
//              └► answer 1'                               and goes before what it continues
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "text/token_id.hpp"
#include "text/tokenizer/tokenizer.hpp"

namespace troupe {

// A part of a prompt, from where the part before it ends. Offsets are bytes in the
// prompt's text.
struct RememberedText {
  std::shared_ptr<const RememberedText> before = {};  // null: it is the prompt's beginning
  std::uint64_t key = 0;                              // of the last message (message_chain.hpp)
  std::size_t begin = 0;
  std::string text = {};                        // as the template wrote it
  std::vector<TextRange> trusted = {};          // of text, the template's own
  std::string answer = {};                      // behind text, as the model wrote it
  std::vector<TextRange> answer_specials = {};  // its special tokens
  std::vector<TokenId> tokens = {};             // of text and answer
  std::size_t depth = 0;                        // parts before it
  std::string scope = {};                       // tokens are of this model and salt

  std::size_t answer_begin() const { return begin + text.size(); }
  std::size_t end() const { return begin + text.size() + answer.size(); }
  std::size_t num_bytes() const;
  bool has_same_content(const RememberedText& other) const;
};

struct TurnMemoryLimits {
  std::size_t max_bytes = std::size_t{64} << 20;  // 0: nothing is remembered
  std::size_t max_parts = 65'536;
};

struct TurnMemorySize {
  std::size_t num_bytes = 0, num_parts = 0;
};

// Any thread.
class TurnMemory {
 public:
  // Parts that follow each other; a longer chat is forgotten from there on.
  static constexpr std::size_t kMaxDepth = 8192;

  explicit TurnMemory(TurnMemoryLimits limits) : limits_(limits) {}

  bool is_on() const { return limits_.max_bytes > 0; }
  // The part of the last of these keys that is known; null: of none.
  std::shared_ptr<const RememberedText> find(const std::string& tenant, std::span<const std::uint64_t> keys);
  // Parts that follow `before`, each the one before it. A `before` that isn't what is
  // stored, being a shortened answer, takes its place; nothing happens if it is
  // forgotten meanwhile.
  void remember(const std::string& tenant, const std::shared_ptr<const RememberedText>& before,
                std::vector<RememberedText> parts);

  TurnMemorySize size() const;

 private:
  struct Part {
    std::shared_ptr<const RememberedText> content;
    Part* parent = nullptr;
    std::vector<Part*> children;
    std::list<Part*>::iterator place;  // in by_age
  };
  struct Tenant {
    std::unordered_map<std::uint64_t, Part> parts;
    std::list<Part*> by_age;  // the last used first; no part is behind what continues it
    std::size_t num_bytes = 0;
  };

  void use(Tenant& tenant, Part* part);
  Part* stored(Tenant& tenant, const std::shared_ptr<const RememberedText>& content);
  Part* add(Tenant& tenant, Part* parent, RememberedText content);
  void remove(Tenant& tenant, Part* part);
  void make_room();

  const TurnMemoryLimits limits_;
  mutable std::mutex mutex_;
  std::map<std::string, Tenant> tenants_;  // that hold any part
  TurnMemorySize size_;
};

}  // namespace troupe
