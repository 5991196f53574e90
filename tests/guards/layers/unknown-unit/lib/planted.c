// SPDX-License-Identifier: MIT
#include "util.h"
