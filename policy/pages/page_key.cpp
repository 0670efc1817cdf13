// SPDX-License-Identifier: Apache-2.0
#include "policy/pages/page_key.hpp"

#include <bit>

namespace troupe {
namespace {

// SipHash-2-4-128 (Aumasson, Bernstein) over whole 64-bit words.
class SipHash {
 public:
  explicit SipHash(const PageSecret& secret)
      : v0_(secret.k0 ^ 0x736f6d6570736575ULL),
        v1_(secret.k1 ^ 0x646f72616e646f6dULL ^ 0xee),
        v2_(secret.k0 ^ 0x6c7967656e657261ULL),
        v3_(secret.k1 ^ 0x7465646279746573ULL) {}

  void add(std::uint64_t word) {
    v3_ ^= word;
    round();
    round();
    v0_ ^= word;
    num_words_ += 1;
  }

  PageKey finish() {
    add(num_words_ * 8 << 56);
    v2_ ^= 0xee;
    PageKey key;
    key.low = squeeze();
    v1_ ^= 0xdd;
    key.high = squeeze();
    return key;
  }

 private:
  std::uint64_t squeeze() {
    for (int i = 0; i < 4; ++i) round();
    return v0_ ^ v1_ ^ v2_ ^ v3_;
  }

  void round() {
    v0_ += v1_;
    v1_ = std::rotl(v1_, 13) ^ v0_;
    v0_ = std::rotl(v0_, 32);
    v2_ += v3_;
    v3_ = std::rotl(v3_, 16) ^ v2_;
    v0_ += v3_;
    v3_ = std::rotl(v3_, 21) ^ v0_;
    v2_ += v1_;
    v1_ = std::rotl(v1_, 17) ^ v2_;
    v2_ = std::rotl(v2_, 32);
  }

  std::uint64_t v0_, v1_, v2_, v3_;
  std::uint64_t num_words_ = 0;
};

}  // namespace

PageKey page_key(const PageSecret& secret, const PageKey& parent, std::span<const std::int32_t> tokens) {
  SipHash hash(secret);
  hash.add(parent.low);
  hash.add(parent.high);
  for (std::size_t i = 0; i < tokens.size(); i += 2) {
    const std::uint64_t low = static_cast<std::uint32_t>(tokens[i]);
    const std::uint64_t high =
        i + 1 < tokens.size() ? static_cast<std::uint32_t>(tokens[i + 1]) : 0xffffffffULL;
    hash.add(low | high << 32);
  }
  return hash.finish();
}

}  // namespace troupe
