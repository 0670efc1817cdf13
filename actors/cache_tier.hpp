// SPDX-License-Identifier: Apache-2.0
// Does with KV pages what takes time: hands transfers between the host's pages and
// the disk to the disk tier and says when they are done; watches the space on the
// disk, and has it given back when responses can't be stored without. Which page
// goes where is decided in the scheduler's core (engine/page_map.hpp).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "actors/actor_rules.hpp"
#include "actors/disk_tier.hpp"
#include "actors/message_types.hpp"

namespace troupe {

class CacheTierState {
 public:
  using Self = CacheTierActor::stateful_pointer<CacheTierState>;
  static inline const char* name = "cache_tier";

  ~CacheTierState();

  void initialize(Self self, Environment environment);

  void transfer(const TransferPages& message);
  void answer_disk();
  void make_room();
  void take_way_given();
  void note_pulse(const CheckPulse& pulse);

 private:
  template <class Message>
  bool send_scheduler(Message message);  // false: it is not there
  void give_way();
  void note_shortage();
  void look_at_disk();
  void settle_room();

  Self self_ = nullptr;
  Environment environment_;
  std::unique_ptr<CensusEntry> census_;
  std::shared_ptr<DiskTier> disk_;  // null: none
  caf::actor_addr scheduler_;       // weak: it holds this actor
  std::uint32_t num_releases_under_way_ = 0;
  std::uint32_t num_ways_awaited_ = 0;        // DiskShort without its DiskGaveWay
  std::vector<caf::actor_addr> room_wanted_;  // by response stores
  bool is_short_of_space_ = false;
  std::chrono::steady_clock::time_point last_look_at_disk_;
};

CacheTierActor::behavior_type make_cache_tier(CacheTierState::Self self, Environment environment);

}  // namespace troupe
