// Shaders with one element for each invocation.
layout(local_size_x = 128) in;

uint invocation_number() {
    return group_number() * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
}
