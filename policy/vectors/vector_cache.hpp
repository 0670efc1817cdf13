// SPDX-License-Identifier: Apache-2.0
// Vectors that were computed lately, by tenant: an input that comes again is answered from
// here (the response cache of TurboTransformers). No tenant gets what another's input
// has left, so no tenant learns from times what others ask for.
//
// Bounded in bytes and age. Where room is needed the tenant with most bytes loses what it
// has not used for longest: one that has no more than its even share loses nothing to others.
#pragma once

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

// All that a vector depends on.
struct VectorInput {
  std::uint32_t model = 0;
  std::uint32_t second_text = 0;  // as SequenceSlice::second_text
  std::vector<std::int32_t> tokens;
  auto operator<=>(const VectorInput&) const = default;
};

class VectorCache {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // keep_for: from when a vector was put in.
  VectorCache(std::size_t max_bytes, std::chrono::nanoseconds keep_for)
      : max_bytes_(max_bytes), keep_for_(keep_for) {}

  // Null: it is not there. Valid until the next call. `now` never goes back.
  const std::vector<float>* find(const std::string& tenant, const VectorInput& input, TimePoint now);
  // One that is larger than all the room there is, or is there, is not put in.
  void put(const std::string& tenant, VectorInput input, std::vector<float> vector, TimePoint now);

  std::size_t num_bytes() const { return num_bytes_; }
  std::size_t num_bytes(const std::string& tenant) const;
  std::size_t size() const { return by_age_.size(); }  // vectors

 private:
  struct Place {
    std::string tenant;
    const VectorInput* input = nullptr;
    TimePoint put;
  };
  struct Entry {
    std::vector<float> vector;
    std::size_t num_bytes = 0;
    std::list<Place>::iterator age;
    std::list<const VectorInput*>::iterator use;
  };
  struct Tenant {
    std::map<VectorInput, Entry> entries;
    std::list<const VectorInput*> by_use;  // the longest unused first
    std::size_t num_bytes = 0;
  };

  void expire(TimePoint now);
  void make_room(const std::string& newcomer, std::size_t num_bytes);
  void erase(const std::string& tenant, const VectorInput& input);
  void resize(const std::string& name, Tenant& tenant, std::size_t num_bytes);

  std::size_t max_bytes_;
  std::chrono::nanoseconds keep_for_;
  std::map<std::string, Tenant> tenants_;  // each has a vector at least
  std::set<std::pair<std::size_t, std::string>> by_bytes_;
  std::list<Place> by_age_;  // the oldest first
  std::size_t num_bytes_ = 0;
};

}  // namespace troupe
