// SPDX-License-Identifier: Apache-2.0
// A setting as people write it: its names, its help, what it may be, and its place in
// the struct that holds it. Flags, files, the environment and stored profiles read and
// write through tables of these.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

namespace troupe {

// kBytes: "512MiB", "2GiB" or "1048576". kPath: relative ones in a file are relative to
// the file's directory; empty stays empty. kSeconds, kDays: whole ones of a duration.
// kPercent: whole ones of a share from 0 to 1.
enum class SettingUnit : std::uint8_t { kNone, kBytes, kPath, kSeconds, kDays, kPercent };

// An enumeration of one byte, whose values are indexes of the setting's choices.
struct ChoicePlace {
  unsigned char* index;
};

using SettingPlace = std::variant<bool*, std::uint32_t*, std::uint64_t*, double*, std::string*,
                                  std::chrono::milliseconds*, ChoicePlace>;

template <typename Member>
SettingPlace place_of(Member& member) {
  if constexpr (std::is_enum_v<Member>) {
    static_assert(sizeof(Member) == 1);
    return ChoicePlace{reinterpret_cast<unsigned char*>(&member)};
  } else {
    return &member;
  }
}

using SettingWords = std::array<std::string_view, 7>;  // the last ones may be empty

// The names, help and range of a setting.
struct SettingRule {
  // Real numbers are from 0 on, and shares, up to 1, unless there is a maximum.
  std::uint64_t minimum = 0, maximum = UINT64_MAX;
  std::span<const std::string_view> choices;
  SettingUnit unit = SettingUnit::kNone;
  std::optional<std::string> (*wrong)(std::string_view text) = nullptr;
  bool is_limited = true;                       // false: whatever minimum and maximum are
  std::optional<std::uint64_t> automatic = {};  // the number that the text "auto" stands for
};

inline constexpr std::string_view kAutomatic = "auto";

// The same without a range: a simulation, or a stored profile, may go beyond what people may set.
inline SettingRule unlimited(SettingRule rule) {
  rule.is_limited = false;
  return rule;
}

// Returns what is wrong with the text, or nothing.
[[nodiscard]] std::optional<std::string> set_place(const SettingPlace& place, const SettingRule& rule,
                                                   std::string_view text);
// The present value as text, as a file would say it.
std::string text_of(const SettingPlace& place, const SettingRule& rule);

// The words for true and false; nullopt: it is none of them.
std::optional<bool> parse_bool(std::string_view text);

std::string environment_name(std::string_view key);  // "server.port": "TROUPE_SERVER_PORT"
std::string profile_name(std::string_view flag);     // "--max-waiting": "max_waiting"

template <typename Owner>
class SettingField {
 public:
  using Find = std::function<SettingPlace(Owner&)>;

  template <typename Member>
  SettingField(Member Owner::*member) : find_([member](Owner& owner) { return place_of(owner.*member); }) {}
  explicit SettingField(Find find) : find_(std::move(find)) {}

  SettingPlace in(Owner& owner) const { return find_(owner); }

 private:
  Find find_;
};

template <typename Owner>
struct Setting {
  using Unit = SettingUnit;

  std::string_view key;   // "server.port", in a file [server] port
  std::string_view flag;  // "--port"
  std::string_view help;
  SettingField<Owner> field;
  std::uint64_t minimum = 0, maximum = UINT64_MAX;
  // Empty: any. "cuda:N" stands for any number in place of the N.
  SettingWords choices = {};
  Unit unit = Unit::kNone;
  SettingWords words = {};  // kPath: what is no path
  // Text: says what was expected if it will not do. Null: any will.
  std::optional<std::string> (*wrong)(std::string_view text) = nullptr;
  // Whole numbers: "auto" is this one, which may be out of range.
  std::optional<std::uint64_t> automatic = {};

  SettingRule rule() const {
    const auto num_choices = std::find(choices.begin(), choices.end(), "") - choices.begin();
    return {.minimum = minimum,
            .maximum = maximum,
            .choices = std::span(choices).first(static_cast<std::size_t>(num_choices)),
            .unit = unit,
            .wrong = wrong,
            .automatic = automatic};
  }
  std::string environment_name() const { return troupe::environment_name(key); }

  bool is_switch() const { return holds<bool*>(); }
  bool is_text() const { return holds<std::string*>() || holds<ChoicePlace>(); }

 private:
  template <typename Place>
  bool holds() const {
    Owner owner;
    return std::holds_alternative<Place>(field.in(owner));
  }
};

}  // namespace troupe
