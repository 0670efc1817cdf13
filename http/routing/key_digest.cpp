// SPDX-License-Identifier: Apache-2.0
#include "http/routing/key_digest.hpp"

#include <stdexcept>

#include <openssl/crypto.h>
#include <openssl/evp.h>

namespace troupe {

KeyDigest::KeyDigest(std::string_view key) {
  unsigned size = 0;
  if (EVP_Digest(key.data(), key.size(), bytes_.data(), &size, EVP_sha256(), nullptr) != 1 ||
      size != bytes_.size())
    throw std::runtime_error("OpenSSL can't compute SHA-256");
}

bool KeyDigest::operator==(const KeyDigest& other) const {
  return CRYPTO_memcmp(bytes_.data(), other.bytes_.data(), bytes_.size()) == 0;
}

}  // namespace troupe
