// What shaders share: where an invocation is in a folded grid, and elements as bits.
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_16bit_storage : require

// Workgroups are counted through x, then y, then z: a grid too long for one axis goes on along the next.
uint group_number() {
    return (gl_WorkGroupID.z * gl_NumWorkGroups.y + gl_WorkGroupID.y) * gl_NumWorkGroups.x + gl_WorkGroupID.x;
}

// Takes the coordinate along axis `k` off `rest`, axes counted from the innermost.
// Written out for each axis: loops would count against the iterations that some drivers grant an invocation.
#define COORDINATE(k, rest, size) (rest - (rest / size[k]) * size[k])

#if defined(SIZE)
#if SIZE == 1
#define ELEMENT uint8_t
#define FILL uint8_t(p.fill.x)
#define NOUGHT uint8_t(0)
#elif SIZE == 2
#define ELEMENT uint16_t
#define FILL uint16_t(p.fill.x)
#define NOUGHT uint16_t(0)
#elif SIZE == 4
#define ELEMENT uint
#define FILL p.fill.x
#define NOUGHT 0u
#else
#define ELEMENT uvec2
#define FILL p.fill
#define NOUGHT uvec2(0u)
#endif
#endif
