// SPDX-License-Identifier: Apache-2.0
// Boost.JSON, compiled here and only here; no library of it is linked.
#include <boost/json/src.hpp>
