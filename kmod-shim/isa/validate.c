// SPDX-License-Identifier: MIT
/*
 * The validator. First the header (V01 to V06, no work memory needed), then
 * the tables row by row, then the commands, then what needs all of them.
 *
 * A check that fails calls note(), which keeps the lowest row of the table
 * entry or command at hand: so the checks of one command may stand in any
 * order. A check whose numbers another row refuses is left out, never done
 * with numbers that make no sense.
 *
 * report.operand: of a table its index, of the header the byte offset of the
 * field; of a command the operand, counted in the order of section 5.2 with
 * the residual last, or for V07, V37 and V38 the byte offset of the field.
 *
 * Relies on nothing but its arguments: the bytes do not change meanwhile.
 */
#include "validate-parts.h"

#define MAX_PAIRS 80 /* ways to put 4 parameters into params and twice */

const struct qbnpu_caps qbnpu_caps_isa = {
	.isa_minor = QBNPU_ISA_MINOR,
	.isa_features = QBNPU_FEATURES_ISA,
	.max_binding_size = QBNPU_MAX_BINDING_SIZE,
	.max_span = QBNPU_MAX_SPAN,
	.max_command_macs = QBNPU_MAX_COMMAND_MACS,
	.max_program_macs = QBNPU_MAX_PROGRAM_MACS,
	.max_byte_count = QBNPU_MAX_BYTE_COUNT,
	.max_delays_ns = QBNPU_MAX_DELAYS_NS,
	.max_program_size = QBNPU_MAX_PROGRAM_SIZE,
	.max_bindings = QBNPU_MAX_BINDINGS,
	.max_tensors = QBNPU_MAX_TENSORS,
	.max_commands = QBNPU_MAX_COMMANDS,
	.max_extent = QBNPU_MAX_EXTENT,
	.max_pool = QBNPU_MAX_POOL,
	.max_intervals = QBNPU_MAX_INTERVALS,
	.max_delay_ns = QBNPU_MAX_DELAY_NS,
};

static int refuse(struct qbnpu_report *report, uint32_t rule, uint32_t command,
		  uint32_t operand, uint64_t limit)
{
	report->rule = rule;
	report->command = command;
	report->operand = operand;
	report->limit = limit;
	return -ENOEXEC;
}

static uint64_t round_up16(uint64_t size)
{
	return (size + 15) & ~15ull;
}

static void clear(void *bytes, size_t size)
{
	uint8_t *byte = bytes;

	while (size--)
		*byte++ = 0;
}

static uint32_t get_u32(const void *bytes, uint32_t offset)
{
	const void *at = (const uint8_t *)bytes + offset;

	return *(const uint32_t *)at;
}

/* V05, V06: where the header keeps a region, its count and its element */
static const struct {
	uint8_t offset;
	uint8_t count;
	uint8_t size;
} regions[] = {
	{ offsetof(struct qbnpu_program, bindings_offset),
	  offsetof(struct qbnpu_program, binding_count),
	  sizeof(struct qbnpu_binding_desc) },
	{ offsetof(struct qbnpu_program, tensors_offset),
	  offsetof(struct qbnpu_program, tensor_count),
	  sizeof(struct qbnpu_tensor) },
	{ offsetof(struct qbnpu_program, lists_offset),
	  offsetof(struct qbnpu_program, list_count),
	  sizeof(struct qbnpu_list) },
	{ offsetof(struct qbnpu_program, params_offset),
	  offsetof(struct qbnpu_program, param_count),
	  sizeof(struct qbnpu_param) },
	{ offsetof(struct qbnpu_program, pool_offset),
	  offsetof(struct qbnpu_program, pool_count), sizeof(uint32_t) },
	{ offsetof(struct qbnpu_program, commands_offset),
	  offsetof(struct qbnpu_program, commands_size), 1 },
};

static int check_counts(const struct qbnpu_program *program,
			const struct qbnpu_caps *caps,
			struct qbnpu_report *report)
{
	const struct {
		uint32_t offset;
		uint32_t min;
		uint32_t max;
	} counts[] = {
		{ HEADER_FIELD(binding_count), 1, caps->max_bindings },
		{ HEADER_FIELD(tensor_count), 1, caps->max_tensors },
		{ HEADER_FIELD(command_count), 1, caps->max_commands },
		{ HEADER_FIELD(param_count), 0, QBNPU_MAX_PARAMS },
		{ HEADER_FIELD(pool_count), 0, caps->max_pool },
	};
	uint32_t i;

	for (i = 0; i < NUM(counts); i++) {
		uint32_t count = get_u32(program, counts[i].offset);

		if (count < counts[i].min || count > counts[i].max)
			return refuse(report, 5, QBNPU_NONE32, counts[i].offset,
				      counts[i].max);
	}
	return 0;
}

static int check_regions(const struct qbnpu_program *program,
			 struct qbnpu_report *report)
{
	uint64_t end = sizeof(*program);
	uint32_t i;

	for (i = 0; i < NUM(regions); i++) {
		uint64_t begin = round_up16(end);

		if (get_u32(program, regions[i].offset) != begin)
			return refuse(report, 6, QBNPU_NONE32,
				      regions[i].offset, begin);
		end = begin + (uint64_t)get_u32(program, regions[i].count) *
				      regions[i].size;
	}
	if (end != program->size)
		return refuse(report, 6, QBNPU_NONE32,
			      HEADER_FIELD(commands_size), program->size);
	return 0;
}

/* V01 to V06 */
static int check_header(const struct qbnpu_program *program, size_t size,
			const struct qbnpu_caps *caps,
			struct qbnpu_report *report)
{
	uint64_t features;
	int err;

	if (size < QBNPU_MIN_PROGRAM_SIZE || size > caps->max_program_size ||
	    size % 16 || program->size != size)
		return refuse(report, 1, QBNPU_NONE32, HEADER_FIELD(size),
			      caps->max_program_size);
	if (program->magic != QBNPU_PROGRAM_MAGIC)
		return refuse(report, 2, QBNPU_NONE32, 0, QBNPU_PROGRAM_MAGIC);
	if (program->isa_major != QBNPU_ISA_MAJOR)
		return refuse(report, 3, QBNPU_NONE32, HEADER_FIELD(isa_major),
			      QBNPU_ISA_MAJOR);
	if (program->isa_minor > QBNPU_ISA_MINOR ||
	    program->isa_minor > caps->isa_minor)
		return refuse(report, 3, QBNPU_NONE32, HEADER_FIELD(isa_minor),
			      caps->isa_minor);
	features = program->isa_features;
	if (features & ~QBNPU_FEATURES_ISA)
		return refuse(report, 4, QBNPU_NONE32,
			      HEADER_FIELD(isa_features),
			      features & ~QBNPU_FEATURES_ISA);
	if (features & ~caps->isa_features) {
		refuse(report, 4, QBNPU_NONE32, HEADER_FIELD(isa_features),
		       features & ~caps->isa_features);
		return -EOPNOTSUPP;
	}
	err = check_counts(program, caps, report);
	return err ? err : check_regions(program, report);
}

static void check_head_reserved(struct validator *v, const uint8_t *command)
{
	const struct qbnpu_cmd *head = (const void *)command;

	if (head->flags & ~QBNPU_CMD_IN_PLACE)
		note(v, 7, offsetof(struct qbnpu_cmd, flags), 0);
	if (head->reserved)
		note(v, 7, offsetof(struct qbnpu_cmd, reserved), 0);
}

static void check_command_reserved(struct validator *v, const uint8_t *command,
				   const struct op *op)
{
	uint32_t i;

	for (i = 0; i < NUM(op->reserved); i++) {
		if (!is_zero(command + op->reserved[i].offset,
			     op->reserved[i].size))
			note(v, 7, op->reserved[i].offset, 0);
	}
	if (op->flags_offset && command[op->flags_offset] & ~op->flags)
		note(v, 7, op->flags_offset, op->flags);
}

/*
 * The row that refuses the bytes at offset as a command (V31, V32) or 0; op is
 * the opcode's row where the opcode is known.
 */
static uint32_t find_command(const struct validator *v, uint32_t offset,
			     const struct op **op)
{
	uint32_t left = v->program->commands_size - offset;
	const struct qbnpu_cmd *head = (const void *)(v->commands + offset);

	if (left < sizeof(*head) || head->size16 * 16u > left)
		return 31;
	*op = qbnpu_find_op(head->opcode);
	if (!*op)
		return 32;
	return (*op)->size16 == head->size16 ? 0 : 31;
}

/*
 * V07 of the header, the pad bytes and the commands. Also marks what the
 * commands write, which V26 asks for, and sees whether they fill the region
 * (V30). Ends early at a command that V31 or V32 will refuse.
 */
static void check_reserved(struct validator *v)
{
	const struct qbnpu_program *program = v->program;
	uint64_t pool_end =
		program->pool_offset + (uint64_t)program->pool_count * 4;
	uint32_t offset = 0;
	uint32_t i, j;

	if (!is_zero(program->reserved, sizeof(program->reserved)) ||
	    program->flags & ~QBNPU_PROGRAM_TIMESTAMPS)
		note(v, 7, HEADER_FIELD(flags), 0);
	if (!is_zero((const uint8_t *)program + pool_end,
		     program->commands_offset - pool_end))
		note(v, 7, HEADER_FIELD(pool_count), pool_end);
	for (i = 0; i < program->command_count && !v->rule; i++) {
		const uint8_t *command = v->commands + offset;
		const struct op *op;

		tick(v);
		v->command = i;
		if (program->commands_size - offset >= sizeof(struct qbnpu_cmd))
			check_head_reserved(v, command);
		if (v->rule || find_command(v, offset, &op))
			return;
		check_command_reserved(v, command, op);
		for (j = 0; j < op->num_operands; j++) {
			uint32_t number = get_u16(command, op->operands[j]);

			if (op->dst >> j & 1 && number < program->tensor_count)
				v->marks[number] |= MARK_DST;
		}
		offset += op->size16 * 16u;
	}
	v->is_short = offset != program->commands_size;
}

static int compare_bytes(const void *a, const void *b, size_t size)
{
	const uint8_t *x = a;
	const uint8_t *y = b;

	for (; size; size--, x++, y++) {
		if (*x != *y)
			return *x < *y ? -1 : 1;
	}
	return 0;
}

/* By place; 0 only for identical views (V43). */
static int compare_views(const struct validator *v, uint32_t a, uint32_t b)
{
	const struct qbnpu_tensor *x = &v->tensors[a];
	const struct qbnpu_tensor *y = &v->tensors[b];
	int order;

	if (x->binding != y->binding)
		return x->binding < y->binding ? -1 : 1;
	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	if (x->span != y->span)
		return x->span < y->span ? -1 : 1;
	if (x->window != y->window)
		return x->window < y->window ? -1 : 1;
	order = compare_bytes(&x->offset_axis, &y->offset_axis, 1);
	if (!order)
		order = compare_bytes(x->dims, y->dims, sizeof(x->dims));
	if (!order)
		order = compare_bytes(x->strides, y->strides,
				      sizeof(x->strides));
	if (!order)
		order = compare_bytes(x->extent_params, y->extent_params,
				      sizeof(x->extent_params));
	if (!order)
		order = compare_bytes(&x->offset_params, &y->offset_params, 1);
	return order;
}

static void sift_down(struct validator *v, uint32_t root, uint32_t end)
{
	uint16_t *order = v->order;
	uint16_t moved = order[root];
	uint32_t child;

	while ((child = 2 * root + 1) < end) {
		if (child + 1 < end &&
		    compare_views(v, order[child], order[child + 1]) < 0)
			child++;
		if (compare_views(v, moved, order[child]) >= 0)
			break;
		order[root] = order[child];
		root = child;
	}
	order[root] = moved;
}

/* A heap sort: no recursion, no worse case. */
static void sort_views(struct validator *v)
{
	uint32_t i;

	for (i = v->num_order / 2; i-- > 0;)
		sift_down(v, i, v->num_order);
	for (i = v->num_order; i-- > 1;) {
		uint16_t largest = v->order[0];

		tick(v);
		v->order[0] = v->order[i];
		v->order[i] = largest;
		sift_down(v, 0, i);
	}
}

/*
 * What V43 needs to know identical views by, and V47 sorted by place: SCRATCH
 * tensors with parameters, OUTPUT tensors that are written.
 */
static void collect_views(struct validator *v)
{
	uint32_t i;

	for (i = 0; i < v->program->tensor_count; i++) {
		const struct qbnpu_tensor *t = &v->tensors[i];
		uint32_t kind = v->bindings[t->binding].kind;

		if ((kind == QBNPU_BINDING_SCRATCH && has_params(t)) ||
		    (kind == QBNPU_BINDING_OUTPUT && v->marks[i] & MARK_DST))
			v->order[v->num_order++] = (uint16_t)i;
	}
	sort_views(v);
	for (i = 0; i < v->num_order; i++) {
		uint16_t tensor = v->order[i];

		if (i && !compare_views(v, v->order[i - 1], tensor))
			v->view[tensor] = v->view[v->order[i - 1]];
		else
			v->view[tensor] = tensor;
	}
}

/* First interval that ends at or behind a place. */
static uint32_t find_interval(const struct validator *v, uint64_t place)
{
	uint32_t low = 0;
	uint32_t high = v->num_intervals;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (v->intervals[middle].end < place)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Joins what overlaps or touches, so the intervals stay disjoint. */
static void add_interval(struct validator *v, uint32_t operand, uint64_t begin,
			 uint64_t end)
{
	uint32_t first = find_interval(v, begin);
	uint32_t last = first;
	uint32_t i;

	for (; last < v->num_intervals && v->intervals[last].begin <= end;
	     last++) {
		if (v->intervals[last].begin < begin)
			begin = v->intervals[last].begin;
		if (v->intervals[last].end > end)
			end = v->intervals[last].end;
	}
	if (last == first) {
		if (v->num_intervals >= v->caps->max_intervals ||
		    v->num_intervals >= QBNPU_MAX_INTERVALS) {
			note(v, 43, operand, v->caps->max_intervals);
			return;
		}
		for (i = v->num_intervals++; i > first; i--)
			v->intervals[i] = v->intervals[i - 1];
	} else {
		for (i = last; i < v->num_intervals; i++)
			v->intervals[first + 1 + i - last] = v->intervals[i];
		v->num_intervals -= last - first - 1;
	}
	v->intervals[first].begin = begin;
	v->intervals[first].end = end;
}

static _Bool is_written(const struct validator *v, const struct qbnpu_tensor *t)
{
	uint64_t end = t->offset + t->span;
	uint32_t i = find_interval(v, end);

	if (i < v->num_intervals && v->intervals[i].begin <= t->offset)
		return 1;
	return has_params(t) &&
	       v->marks[v->view[t - v->tensors]] & MARK_WRITTEN;
}

static _Bool is_scratch(const struct validator *v, const struct qbnpu_tensor *t)
{
	return t && v->bindings[t->binding].kind == QBNPU_BINDING_SCRATCH;
}

/* V43: all reads of a command come before its writes */
static void check_scratch(struct validator *v)
{
	uint32_t i;

	for (i = 0; i < v->op->num_operands; i++) {
		if (is_scratch(v, v->t[i]) && !(v->op->dst >> i & 1) &&
		    !is_written(v, v->t[i]))
			note(v, 43, i, v->t[i]->offset);
	}
	for (i = 0; i < v->op->num_operands; i++) {
		const struct qbnpu_tensor *t = v->t[i];

		if (!is_scratch(v, t) || !(v->op->dst >> i & 1))
			continue;
		if (has_params(t))
			v->marks[v->view[t - v->tensors]] |= MARK_WRITTEN;
		else
			add_interval(v, i, t->offset, t->offset + t->span);
	}
}

/* The binding that stands for the memory: an alias is its INPUT. */
static uint32_t get_memory(const struct validator *v,
			   const struct qbnpu_tensor *t)
{
	uint32_t alias = v->bindings[t->binding].alias;

	return alias == QBNPU_NONE16 ? t->binding : alias;
}

static _Bool overlaps(const struct validator *v, const struct qbnpu_tensor *a,
		      const struct qbnpu_tensor *b)
{
	return get_memory(v, a) == get_memory(v, b) &&
	       a->offset < b->offset + b->span &&
	       b->offset < a->offset + a->span;
}

/* IS51; that both lie in the same memory is known */
static _Bool is_same_view(const struct qbnpu_tensor *a,
			  const struct qbnpu_tensor *b)
{
	return a->offset == b->offset && a->rank == b->rank &&
	       a->offset_axis == b->offset_axis &&
	       a->offset_params == b->offset_params && a->window == b->window &&
	       !compare_bytes(a->dims, b->dims, sizeof(a->dims)) &&
	       !compare_bytes(a->strides, b->strides, sizeof(a->strides)) &&
	       !compare_bytes(a->extent_params, b->extent_params,
			      sizeof(a->extent_params));
}

/* V40, V41 */
static void check_overlaps(struct validator *v, uint32_t flags)
{
	const struct op *op = v->op;
	uint32_t num_same = 0;
	uint32_t dst, i;
	uint32_t last = 0;

	for (dst = 0; dst < op->num_operands; dst++) {
		const struct qbnpu_tensor *to = v->t[dst];

		if (!(op->dst >> dst & 1) || !to)
			continue;
		last = dst;
		for (i = 0; i < op->num_operands; i++) {
			if (i == dst || !v->t[i] || !overlaps(v, v->t[i], to))
				continue;
			if (!is_same_view(v->t[i], to))
				note(v, 40, i, 0);
			else if (!(flags & QBNPU_CMD_IN_PLACE) ||
				 !(op->in_place >> i & 1) ||
				 op->dst >> (dst + 1) ||
				 (op->opcode == QBNPU_OP_CAST &&
				  size_of(v->t[i]) != size_of(to)))
				note(v, 41, i, 0);
			else
				num_same++;
		}
	}
	if (flags & QBNPU_CMD_IN_PLACE && !num_same)
		note(v, 41, last, 0);
}

/* V33's numbers, V34; adds the operands to byte_count */
static void check_operands(struct validator *v, const uint8_t *command)
{
	const struct op *op = v->op;
	uint32_t i, axis;

	for (i = 0; i < op->num_operands; i++) {
		uint32_t number = get_u16(command, op->operands[i]);
		_Bool is_dst = op->dst >> i & 1;
		const struct qbnpu_tensor *t;
		uint64_t size;

		v->t[i] = NULL;
		if (number == QBNPU_NONE16 && op->opt >> i & 1)
			continue;
		if (number >= v->program->tensor_count) {
			note(v, 33, i, v->program->tensor_count);
			continue;
		}
		t = &v->tensors[number];
		v->t[i] = t;
		if (!(v->bindings[t->binding].access &
		      (is_dst ? QBNPU_ACCESS_WRITE : QBNPU_ACCESS_READ)))
			note(v, 34, i, t->binding);
		size = size_of(t);
		for (axis = 0; axis < t->rank; axis++)
			size = mul_sat(size, t->dims[axis]);
		v->bytes = add_sat(v->bytes, size);
	}
}

static void check_command(struct validator *v, const uint8_t *command)
{
	const struct qbnpu_cmd *head = (const void *)command;

	v->command_macs = 0;
	check_operands(v, command);
	if (v->rule == 33)
		return;
	v->op->check(v, command);
	check_overlaps(v, head->flags);
	check_scratch(v);
	if (v->command_macs > v->caps->max_command_macs)
		note(v, 44, 0, v->caps->max_command_macs);
	v->macs = add_sat(v->macs, v->command_macs);
	if (!v->command && v->program->barrier_count &&
	    (!v->rule || v->rule > 45)) {
		v->command = QBNPU_NONE32;
		note(v, 45, HEADER_FIELD(barrier_count), 0);
	}
}

static void check_commands(struct validator *v)
{
	uint32_t offset = 0;
	uint32_t i;

	for (i = 0; i < v->program->command_count; i++) {
		const uint8_t *command = v->commands + offset;
		uint32_t rule;

		tick(v);
		v->command = i;
		rule = find_command(v, offset, &v->op);
		if (rule)
			note(v, rule, 0, 0);
		else
			check_command(v, command);
		if (v->rule)
			return;
		offset += v->op->size16 * 16u;
	}
	v->command = QBNPU_NONE32;
}

/* V47 */
static void check_outputs(struct validator *v)
{
	uint32_t i;

	for (i = 0; i < v->num_order; i++) {
		const struct qbnpu_tensor *t = &v->tensors[v->order[i]];
		uint64_t *reach = &v->reach[t->binding];

		if (t->offset <= *reach && t->offset + t->span > *reach)
			*reach = t->offset + t->span;
	}
	for (i = 0; i < v->program->binding_count; i++) {
		if (v->bindings[i].kind == QBNPU_BINDING_OUTPUT &&
		    v->reach[i] < v->bindings[i].size)
			note(v, 47, i, v->reach[i]);
	}
}

/* The last part of V04; limit is the bits that differ */
static void check_features(struct validator *v)
{
	uint32_t i;

	for (i = 0; i < v->program->binding_count; i++) {
		if (v->bindings[i].kind == QBNPU_BINDING_STATE)
			v->features |= QBNPU_FEATURE_STATE;
	}
	for (i = 0; i < v->program->tensor_count; i++) {
		if (v->tensors[i].dtype == QBNPU_DTYPE_F16 ||
		    v->tensors[i].dtype == QBNPU_DTYPE_BF16)
			v->features |= QBNPU_FEATURE_HALF;
	}
	if (v->program->param_count)
		v->features |= QBNPU_FEATURE_DYNAMIC;
	if (v->features != v->program->isa_features)
		note(v, 4, HEADER_FIELD(isa_features),
		     v->features ^ v->program->isa_features);
}

/* What needs all commands, in this order: V44, V48, V47, V49, V04 */
static void check_totals(struct validator *v)
{
	const struct qbnpu_program *program = v->program;

	if (v->macs != program->mac_count ||
	    v->macs > v->caps->max_program_macs)
		note(v, 44, HEADER_FIELD(mac_count), v->macs);
	else if (v->bytes != program->byte_count ||
		 v->bytes > v->caps->max_byte_count)
		note(v, 44, HEADER_FIELD(byte_count), v->bytes);
	if (!v->rule && v->delays > v->caps->max_delays_ns)
		note(v, 48, 0, v->caps->max_delays_ns);
	if (!v->rule)
		check_outputs(v);
	if (!v->rule &&
	    v->has_timestamp != !!(program->flags & QBNPU_PROGRAM_TIMESTAMPS))
		note(v, 49, HEADER_FIELD(flags), v->has_timestamp);
	if (!v->rule)
		check_features(v);
}

static void fill_facts(const struct validator *v)
{
	const struct qbnpu_program *program = v->program;
	struct qbnpu_facts *facts = v->facts;
	uint32_t i;

	facts->size =
		sizeof(*facts) + facts->pair_count * sizeof(facts->pairs[0]);
	facts->isa_features = program->isa_features;
	facts->mac_count = program->mac_count;
	facts->byte_count = program->byte_count;
	facts->core_mode = program->core_mode;
	facts->batch = program->batch;
	facts->binding_count = program->binding_count;
	facts->param_count = program->param_count;
	facts->flags = program->flags;
	for (i = 0; i < program->param_count; i++)
		facts->params[i] = v->params[i];
	for (i = 0; i < program->binding_count; i++) {
		const struct qbnpu_binding_desc *binding = &v->bindings[i];

		facts->bindings[i].size = binding->size;
		facts->bindings[i].kind = binding->kind;
		facts->bindings[i].access = binding->access;
		facts->bindings[i].align_log2 = binding->align_log2;
		facts->bindings[i].alias = binding->alias == QBNPU_NONE16
						   ? QBNPU_NONE32
						   : binding->alias;
	}
}

enum piece {
	PIECE_FACTS,
	PIECE_STATE,
	PIECE_NEXT_BAD,
	PIECE_INTERVALS,
	PIECE_ORDER,
	PIECE_VIEW,
	PIECE_MARKS,
	NUM_PIECES
};

/* Where each piece lies in the work memory; returns the sum. */
static uint64_t get_layout(const struct qbnpu_program *program,
			   uint64_t offsets[NUM_PIECES])
{
	const uint64_t sizes[NUM_PIECES] = {
		[PIECE_FACTS] = sizeof(struct qbnpu_facts) +
				MAX_PAIRS * sizeof(struct qbnpu_param_pair),
		[PIECE_STATE] = sizeof(struct validator),
		[PIECE_NEXT_BAD] = program->pool_count * sizeof(uint32_t),
		[PIECE_INTERVALS] =
			QBNPU_MAX_INTERVALS * sizeof(struct interval),
		[PIECE_ORDER] = program->tensor_count * sizeof(uint16_t),
		[PIECE_VIEW] = program->tensor_count * sizeof(uint16_t),
		[PIECE_MARKS] = program->tensor_count,
	};
	uint64_t size = 0;
	uint32_t i;

	for (i = 0; i < NUM_PIECES; i++) {
		offsets[i] = size;
		size += round_up16(sizes[i]);
	}
	return size;
}

static struct validator *start(const struct qbnpu_program *program,
			       const struct qbnpu_caps *caps,
			       struct qbnpu_work *work,
			       const uint64_t offsets[NUM_PIECES])
{
	const uint8_t *bytes = (const void *)program;
	uint8_t *memory = work->memory;
	struct validator *v = (void *)(memory + offsets[PIECE_STATE]);
	uint32_t i;

	clear(memory, offsets[PIECE_NEXT_BAD]);
	clear(memory + offsets[PIECE_MARKS], program->tensor_count);
	v->program = program;
	v->bindings = (const void *)(bytes + program->bindings_offset);
	v->tensors = (const void *)(bytes + program->tensors_offset);
	v->list = (const void *)(bytes + program->lists_offset);
	v->params = (const void *)(bytes + program->params_offset);
	v->pool = (const void *)(bytes + program->pool_offset);
	v->commands = bytes + program->commands_offset;
	v->caps = caps;
	v->work = work;
	v->facts = work->memory;
	v->next_bad = (void *)(memory + offsets[PIECE_NEXT_BAD]);
	v->intervals = (void *)(memory + offsets[PIECE_INTERVALS]);
	v->order = (void *)(memory + offsets[PIECE_ORDER]);
	v->view = (void *)(memory + offsets[PIECE_VIEW]);
	v->marks = memory + offsets[PIECE_MARKS];
	for (i = program->pool_count; i-- > 0;) {
		tick(v);
		v->next_bad[i] = !is_scale(v->pool[i]) ? i
				 : i + 1 < program->pool_count
					 ? v->next_bad[i + 1]
					 : i + 1;
	}
	return v;
}

size_t qbnpu_validate_work_size(const void *program, size_t size)
{
	struct qbnpu_report report;
	uint64_t offsets[NUM_PIECES];

	if (check_header(program, size, &qbnpu_caps_isa, &report))
		return 0;
	return (size_t)get_layout(program, offsets);
}

int qbnpu_validate(const void *program, size_t size,
		   const struct qbnpu_caps *caps, struct qbnpu_work *work,
		   struct qbnpu_report *report)
{
	uint64_t offsets[NUM_PIECES];
	struct validator *v;
	int err;

	clear(report, sizeof(*report));
	err = check_header(program, size, caps, report);
	if (err)
		return err;
	if (work->size < get_layout(program, offsets) ||
	    (uintptr_t)work->memory % 16)
		return -EINVAL;
	v = start(program, caps, work, offsets);
	v->command = QBNPU_NONE32;
	check_reserved(v);
	if (!v->rule) {
		v->command = QBNPU_NONE32;
		qbnpu_check_tables(v);
	}
	if (!v->rule) {
		collect_views(v);
		check_commands(v);
	}
	if (!v->rule)
		check_totals(v);
	if (v->rule)
		return refuse(report, v->rule, v->command, v->operand,
			      v->limit);
	fill_facts(v);
	report->facts = v->facts;
	return 0;
}
