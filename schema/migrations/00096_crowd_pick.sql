-- Nothing in the tables changes. The functions do: a crowd's best replica has one of its own
-- (crowd_pick), and a tick may wait for a publication. With a number of its own, programs that
-- know only 95 see a newer schema that serves them, and not one whose functions were edited.
-- Serves: 90
--
-- +goose Up

SELECT 1;

-- +goose Down

SELECT 1;
