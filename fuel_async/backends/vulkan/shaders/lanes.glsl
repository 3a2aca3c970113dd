// Workgroups whose invocations share the elements of rows: LANES to a row, as many rows as there are lanes' worth of
// THREADS. Lanes are neighbours where LANE_FAST, as for rows that lie in a piece, else rows are.
layout(constant_id = 0) const uint THREADS = 64;
layout(constant_id = 1) const uint LANES = 64;
layout(constant_id = 2) const uint LANE_FAST = 1;
layout(local_size_x_id = 0) in;

const uint ROWS = THREADS / LANES;

uint lane_number() {
    return LANE_FAST != 0 ? gl_LocalInvocationIndex % LANES : gl_LocalInvocationIndex / ROWS;
}

uint row_in_group() {
    return LANE_FAST != 0 ? gl_LocalInvocationIndex / LANES : gl_LocalInvocationIndex % ROWS;
}

// From one lane to the next, in shared arrays with an element for each invocation.
uint lane_step() {
    return LANE_FAST != 0 ? 1 : ROWS;
}
