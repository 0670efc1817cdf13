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
  std::string scope = {};                       // turn_scope() of the tokens

  std::size_t answer_begin() const { return begin + text.size(); }
  std::size_t end() const { return begin + text.size() + answer.size(); }
  std::size_t num_bytes() const;
  bool has_same_content(const RememberedText& other) const;
};

// The same in every process for tokens of one vocabulary (vocabulary_fingerprint()) with KV of
// one salt. Begins with that of an empty salt.
std::string turn_scope(std::uint64_t vocabulary, const std::string& cache_salt);

// A part that is remembered, or is forgotten: to be written where it outlives the process.
struct TurnChange {
  std::uint64_t number = 0;  // the part's own, above 0
  std::uint64_t before = 0;  // of the part that it continues, a smaller one; 0: none
  std::string tenant = {};
  std::shared_ptr<const RememberedText> content = {};  // null: it is forgotten
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

  // Forgets the parts that ran these tokens beyond the first num_kept, and what continues them.
  void forget(const std::string& tenant, std::span<const TokenId> tokens, std::size_t num_kept);
  // Forgets these parts (TurnChange::number), and what continues them.
  void forget(std::span<const std::uint64_t> numbers);

  TurnMemorySize size() const;

  // From now on changes are kept until they are taken: at most the parts that are there, and the
  // numbers of those that were there when changes were last taken.
  void tell_changes();
  // From now on changes are not kept, and those that were not taken are dropped.
  void tell_no_changes();
  // Changes since the last call: the parts that are forgotten, then those that are remembered, each
  // behind the one that it continues. A part that came and went since is none.
  std::vector<TurnChange> take_changes();
  // Remembers parts of an earlier process, each listed behind the one that it continues. The
  // memory holds nothing else yet. Parts that it does not take are told as forgotten. Numbers up to
  // `last_number` were used.
  void restore(std::vector<TurnChange> parts, std::uint64_t last_number = 0);

 private:
  struct Part {
    std::uint64_t number = 0;
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
  Part* add(const std::string& name, Tenant& tenant, Part* parent, RememberedText content);
  void tell_forgotten(std::uint64_t number);
  Part* insert(Tenant& tenant, Part* parent, std::uint64_t number, RememberedText content);
  Part* insert_restored(const TurnChange& part, const std::map<std::uint64_t, Part*>& known);
  void order_restored(const std::map<std::uint64_t, Part*>& known);
  void remove(Tenant& tenant, Part* part);
  void drop_empty_tenants();
  void make_room();

  const TurnMemoryLimits limits_;
  mutable std::mutex mutex_;
  std::map<std::string, Tenant> tenants_;  // that hold any part
  TurnMemorySize size_;
  std::uint64_t last_number_ = 0;
  bool tells_changes_ = false;
  std::vector<std::uint64_t> told_forgotten_;            // numbers
  std::map<std::uint64_t, TurnChange> told_remembered_;  // by number; all of them are there
};

}  // namespace troupe
